"""What JSON documents have in them: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import base64
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.column_values_inside import LISTED
from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.frames_inside import profiled, works
from nbagent.kernel.inside.value_forms_inside import NUMBER

MIN_FIELDS, MAX_FIELDS = 3, 60
"""Fields of an object that is taken for a record, of which other files may have more."""
MAX_FLAT = 8
"""Fields of an object in a record up to which each is told like one of the record."""
SHAPE_DEPTH, SHAPE_KEYS = 3, 12


def json_file(path: str, size: int, clock: Clock) -> dict[str, Any]:
    """The shape of a JSON document, and its records as tables."""
    if size > clock.whole:
        return {"kind": "JSON", "note": "too large to be read whole"}
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        value = json.load(file)
    load = f"json.load(open({path!r}, encoding='utf-8-sig'))"
    if isinstance(value, dict) and value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        return _geojson(value, load)
    tables: list[dict[str, Any]] = []
    if _is_record(value):
        call = works(f"pl.DataFrame([{load}], infer_schema_length=None)", json=json)
        fields = record(value)
        tables.append({"rows": 1, "columns": fields, "width": len(fields), "call": call})
    for keys, records in _records(value):
        place = "".join(f"[{each!r}]" for each in keys)
        frame = _frame(records)
        name = ".".join(map(str, keys))
        if frame is None:
            tables.append({"name": name, "rows": len(records), "columns": [], "note": f"records: {shape(records[0])}"})
            continue
        call = works(f"pl.DataFrame({load}{place}, infer_schema_length=None)", json=json)
        tables.append({"name": name, **profiled([frame], call=call)})
        nested = [each for each, dtype in frame.schema.items() if dtype.is_nested()]
        if nested:
            tables[-1]["note"] = "nested: " + "; ".join(
                f"{each}: {shape(_first(records, each))}" for each in nested[:8]
            )
    is_record = bool(tables) and "name" not in tables[0]
    note = "a list of records" if isinstance(value, list) and tables else shape(value)
    return {"kind": "JSON", "tables": tables, "note": "" if is_record else note}


def _is_record(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > MAX_FIELDS:
        return False
    return sum(not isinstance(each, dict | list) for each in value.values()) >= MIN_FIELDS


def record(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of one record. A thousand files may have one each, so that no frame is made of it."""
    columns = []
    for name, each in value.items():
        is_flat = (
            isinstance(each, dict)
            and len(each) < MAX_FLAT
            and not any(isinstance(x, dict | list) for x in each.values())
        )
        parts = {f"{name}.{key}": part for key, part in each.items()} if is_flat else {name: each}
        columns += [_field(*part) for part in parts.items()]
    known = [list(each["values"]) for each in columns if "values" in each]
    hashes = iter(pl.Series([text for texts in known for text in texts], dtype=pl.String).hash())
    for each in columns:
        if "values" in each:
            packed = array("I", sorted(next(hashes) % 2**32 for _ in each["values"])).tobytes()
            each["sketch"] = {"level": 0, "hashes": base64.b64encode(packed).decode()}
    return columns


def _field(name: str, value: Any) -> dict[str, Any]:
    items = value if isinstance(value, list) else [value]
    there = [each for each in items if each not in (None, "")]
    kinds = {"Struct" if isinstance(each, dict | list) else _TYPES.get(type(each), "String") for each in there}
    inner = kinds.pop() if len(kinds) == 1 else ("String" if kinds else "Null")
    dtype = f"List({inner})" if isinstance(value, list) else inner
    found: dict[str, Any] = {"name": brief(name), "dtype": dtype}
    if not there:
        return found | ({"missing": {"[]": 1}} if isinstance(value, list) else {"empty": 1})
    if inner == "Struct":
        return found | {"form": shape(there[0])[:80]}
    texts = [brief(each) for each in there]
    found["sample"] = texts[:3]
    if not inner.startswith("Float"):
        found |= {"values": dict(Counter(texts).most_common(LISTED)), "distinct": len(set(texts))}
    if inner == "String" and all(_NUMBER.match(text) for text in texts):
        found["form"], there = "numbers", [float(text) for text in texts]
    if inner in ("Int64", "Float64") or "form" in found:
        found |= {"low": min(there), "high": max(there)}
    return found


_TYPES = {bool: "Boolean", int: "Int64", float: "Float64"}
_NUMBER = re.compile(NUMBER)


def _frame(records: list[Any]) -> Any:
    try:
        return pl.DataFrame(records, infer_schema_length=None)
    except Exception:
        return None


def _first(records: list[Any], key: str) -> Any:
    return next((each[key] for each in records if each.get(key)), None)


def _records(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """The lists of records in a document, with where they are."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value[:100]):
        yield keys, [each for each in value if isinstance(each, dict)]
    elif isinstance(value, dict) and len(keys) < SHAPE_DEPTH:
        for key in list(value)[:SHAPE_KEYS]:
            yield from _records(value[key], (*keys, key))


def _geojson(value: dict[str, Any], load: str) -> dict[str, Any]:
    features = [each for each in value["features"] if isinstance(each, dict)]
    kinds = sorted({str((each.get("geometry") or {}).get("type")) for each in features})
    frame = _frame([each.get("properties") or {} for each in features])
    system = (value.get("crs") or {}).get("properties", {}).get("name", "WGS 84")
    note = f"geometries: {', '.join(kinds)}; reference system: {brief(system)}"
    call = f"pl.DataFrame([each['properties'] for each in {load}['features']], infer_schema_length=None)"
    table = profiled([frame], call=works(call, json=json)) if frame is not None else {"rows": len(features)}
    return {"kind": "GeoJSON", "tables": [table], "note": note}


def shape(value: Any, depth: int = 0) -> str:
    """What a value of JSON is made of, in a line."""
    if isinstance(value, dict):
        if depth >= SHAPE_DEPTH:
            return f"an object of {len(value)} keys"
        parts = [f"{brief(key)}: {shape(value[key], depth + 1)}" for key in list(value)[:SHAPE_KEYS]]
        return brief(f"{{{', '.join(parts)}{f', … {len(value):,} keys' if len(value) > SHAPE_KEYS else ''}}}")
    if isinstance(value, list):
        return f"[{shape(value[0], depth + 1)}] ×{len(value):,}" if value else "[]"
    return type(value).__name__
