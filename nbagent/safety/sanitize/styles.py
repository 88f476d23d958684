"""Cleans CSS so that it loads nothing and changes nothing outside of its output. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tinycss2
from tinycss2.ast import Declaration, Node, QualifiedRule

from nbagent.safety.sanitize.left_out import LeftOut, host, is_data_image

MAX_CSS_CHARACTERS = 512 * 1024
"""Characters of CSS in an output that are read."""
MAX_BRACKET_DEPTH = 50
"""Depth of nested brackets."""

_FUNCTIONS = frozenset(
    """rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark calc min max clamp round var repeat minmax
    fit-content linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient
    repeating-conic-gradient translate translatex translatey translate3d scale scalex scaley rotate rotatez skew skewx
    skewy matrix cubic-bezier steps counter counters rect inset circle ellipse polygon blur brightness contrast
    drop-shadow grayscale hue-rotate invert opacity saturate sepia not is where has nth-child nth-last-child nth-of-type
    nth-last-of-type lang dir""".split()
)
"""CSS functions that load nothing; not `url`, `src`, `image`, `image-set`, `cross-fade`, `element` and `attr`."""
_NEVER = frozenset({"error", "at-rule", "at-keyword"})
_LOCAL = frozenset({"fill", "stroke", "clip-path", "mask", "marker", "marker-start", "marker-mid", "marker-end"})
"""Properties that may refer to an element of the same picture: `url(#a)`."""
_FRAGMENT = re.compile(r"#[\w.:-]+")
_LONG_NUMBER = re.compile(r"\d{300}")
"""Digits that the parser would make a number of, which Python refuses beyond 4,300."""


def clean_declarations(text: str, left_out: LeftOut) -> str:
    """Clean the declarations of a `style` attribute."""
    if not _readable(text):
        left_out.add("a style")
        return ""
    kept = _declarations(tinycss2.parse_blocks_contents(text, skip_comments=True, skip_whitespace=True), left_out)
    return " ".join(kept)


def clean_sheet(text: str, left_out: LeftOut) -> str:
    """Clean a style sheet; its rules hold within the parent of the `<style>` element only."""
    if not _readable(text):
        left_out.add("a style sheet")
        return ""
    rules = _rules(tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True), left_out)
    return "@scope {\n" + "\n".join(rules) + "\n}" if rules else ""


def clean_value(name: str, value: str, left_out: LeftOut) -> str:
    """Clean the value of an attribute that is CSS, such as `fill`; empty if it could load something."""
    if _readable(value) and _is_safe(tinycss2.parse_component_value_list(value), name):
        return value
    left_out.add("a style")
    return ""


def _readable(text: str) -> bool:
    """Whether CSS is small and flat enough to be parsed, ends no `<style>` element, and has no references as in SVG."""
    if len(text) > MAX_CSS_CHARACTERS or "<" in text or "&" in text or _LONG_NUMBER.search(text):
        return False
    depth = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth += 1 if bracket in "([{" else -1 if depth else 0
        if depth > MAX_BRACKET_DEPTH:
            return False
    return True


def _rules(nodes: Iterable[Node], left_out: LeftOut) -> list[str]:
    kept = []
    for node in nodes:
        if isinstance(node, QualifiedRule):
            if not _is_safe(node.prelude, ""):
                left_out.add("a style")
                continue
            inside = tinycss2.parse_blocks_contents(node.content, skip_comments=True, skip_whitespace=True)
            # Variables of the whole page become the output's own.
            prelude = tinycss2.serialize(node.prelude).strip().replace(":root", ":scope")
            if (body := _declarations(inside, left_out)) and "<" not in prelude:
                kept.append(f"{prelude} {{ {' '.join(body)} }}")
        elif node.type == "at-rule" and node.lower_at_keyword in ("media", "supports") and node.content is not None:
            inside = tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
            prelude = tinycss2.serialize(node.prelude).strip()
            if _is_safe(node.prelude, "") and "<" not in prelude and (body := _rules(inside, left_out)):
                kept.append(f"@{node.lower_at_keyword} {prelude} {{\n" + "\n".join(body) + "\n}")
        else:
            address = next((each.value for each in getattr(node, "prelude", ()) if each.type in ("string", "url")), "")
            name = getattr(node, "lower_at_keyword", "")
            left_out.add(f"a style sheet from {host(address)}" if name == "import" else "a style")
    return kept


def _declarations(nodes: Iterable[Node], left_out: LeftOut) -> list[str]:
    kept = []
    for node in nodes:
        if isinstance(node, Declaration) and _is_safe(node.value, node.lower_name):
            text = node.serialize()
            if "<" not in text:
                kept.append(f"{text};")
                continue
        if address := _address(getattr(node, "value", ())):
            left_out.loads("a picture", address)
        else:
            left_out.add("a style")
    return kept


def _is_safe(nodes: Iterable[Node], name: str) -> bool:
    for node in nodes:
        if node.type == "url" and not _may_load(node.value, name):
            return False
        if node.type == "function" and node.lower_name == "url":
            if any(not _may_load(each.value, name) for each in node.arguments if each.type not in ("whitespace",)):
                return False
        elif node.type in _NEVER or (node.type == "function" and node.lower_name not in _FUNCTIONS):
            return False
        inside: Any = getattr(node, "arguments", None) or getattr(node, "content", None) or ()
        if not _is_safe(inside, name):
            return False
    return True


def _may_load(address: object, name: str) -> bool:
    if not isinstance(address, str):
        return False
    return is_data_image(address) or (name in _LOCAL and _FRAGMENT.fullmatch(address) is not None)


def _address(nodes: Iterable[Node]) -> str:
    """The first address in a value, for the note."""
    for node in nodes:
        if node.type == "url":
            return str(node.value)
        inside = getattr(node, "arguments", ())
        text = next((each.value for each in inside if each.type in ("string", "url")), "")
        if node.type == "function" and isinstance(text, str) and text:
            return text
    return ""
