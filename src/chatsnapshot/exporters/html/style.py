"""How the page looks: one style sheet, light and dark, narrow and wide, on screen and on paper."""

from __future__ import annotations

__all__ = ["DARK", "LIGHT", "STYLE"]

LIGHT = {
    "page": "#f6f6f3",
    "panel": "#ffffff",
    "line": "#d5d5cf",
    "text": "#1c1f24",
    "dim": "#565b65",
    "link": "#1d56b3",
    "good": "#0b6848",
    "bad": "#b01f18",
    "warn": "#854800",
    "mark": "#fff3c4",
    "run": "#767d8a",
    "task": "#2f6fb7",
    "tool": "#0f8060",
    "model": "#7a4fc9",
    "person": "#b06000",
}
"""Colours by role; text roles keep 4.5:1 on page, panel and mark, bars 3:1 on the panel."""

DARK = {
    "page": "#14161a",
    "panel": "#1c1f25",
    "line": "#383d47",
    "text": "#e7e8ea",
    "dim": "#a5abb6",
    "link": "#86b4ff",
    "good": "#5ccf9f",
    "bad": "#ff8f86",
    "warn": "#f2b861",
    "mark": "#3b3313",
    "run": "#8b93a1",
    "task": "#6ba3e8",
    "tool": "#3fb58c",
    "model": "#a98af0",
    "person": "#e0a040",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


_RULES = """
*{box-sizing:border-box}
html{font:16px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;background:var(--page);color:var(--text);
 -webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;max-width:76rem;padding:0 1rem 3rem}
a{color:var(--link);text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
:target{background:var(--mark)}
.skip{position:absolute;left:-99rem;padding:.5rem 1rem;background:var(--panel)}
.skip:focus{left:1rem;top:.5rem;z-index:1}
h1{font-size:1.7rem;line-height:1.25;margin:.2rem 0 .6rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 .7rem}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0;max-width:48rem}
body>header{padding:1.6rem 0 .4rem}
.brand{color:var(--dim);margin:0}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;margin:.8rem 0 1.2rem;padding:0}
section{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:1rem 1.2rem 1.2rem;
 margin:0 0 1.2rem;scroll-margin-top:.5rem}
footer{color:var(--dim);font-size:.875rem}
.dim{color:var(--dim)}.small{font-size:.875rem}
em.dim{font-style:normal}
.badge{display:inline-block;border:1px solid currentColor;border-radius:1rem;padding:0 .6rem;font-size:.875rem;
 font-weight:600;overflow-wrap:anywhere}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1.2rem;margin:.6rem 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:.85em}
code{overflow-wrap:anywhere}
pre{margin:.3rem 0;padding:.5rem .7rem;background:var(--page);border-radius:6px;white-space:pre-wrap;
 overflow-wrap:anywhere}
.said{white-space:pre-wrap;overflow-wrap:anywhere;max-width:48rem}
details{margin:.25rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}
.n{font-variant-numeric:tabular-nums;font-size:.875rem}
.n::before{content:"#"}
.tree,.tree ul{list-style:none;margin:0;padding:0}
.tree ul{padding-left:1rem;border-left:2px solid var(--line);margin-left:.3rem}
.tree li{margin:.35rem 0}
.talk{list-style:none;margin:0;padding:0}
.talk>li{border-left:3px solid var(--line);padding:.1rem 0 .1rem .8rem;margin:.6rem 0}
.talk>.user{border-color:var(--person)}.talk>.assistant{border-color:var(--task)}.talk>.tool{border-color:var(--tool)}
.talk>.question{border-color:var(--person);border-left-style:dashed}.talk>.problem,.talk>.failed{border-color:var(--bad)}
.talk>.quiet{color:var(--dim)}
.talk>.child{display:flex;gap:.6rem}.child>details{flex:1;min-width:0;margin:0}
.talk p{margin:0}.talk .who{font-weight:600}
.scroll{overflow-x:auto}
.picture{overflow-x:auto}
.picture svg{display:block}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.2rem 0;font-size:1rem}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
tbody th{font-weight:400;overflow-wrap:anywhere;min-width:8rem}
thead th{color:var(--dim);font-weight:600;white-space:nowrap}
.scroll+.scroll{margin-top:1rem}
.events{list-style:none;margin:0;padding:0;font-size:.875rem}
.events li{display:grid;grid-template-columns:4.2rem max-content minmax(0,15rem) minmax(0,1fr);gap:0 .8rem;
 padding:.25rem .2rem;border-top:1px solid var(--line);scroll-margin-top:.5rem}
.events li>*{overflow-wrap:anywhere}
.events .more{grid-column:3/-1;color:var(--dim);display:flex;flex-wrap:wrap;gap:0 .6rem;align-items:baseline}
.more details{margin:0}.more details[open]{flex-basis:100%}
@media(min-width:64rem){
 main{display:grid;grid-template-columns:1fr 1fr;column-gap:1.2rem}main>section{grid-column:1/-1;min-width:0}
 #run{grid-column:1}#verification{grid-column:2}
}
@media(max-width:44rem){
 body{padding:0 .6rem 2rem}section{padding:.8rem .8rem 1rem}
 dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:.4rem}
 .events li{grid-template-columns:max-content minmax(0,1fr)}
 .events .type,.events .what,.events .more{grid-column:1/-1}
}
svg{color:var(--text);font:13px system-ui,"DejaVu Sans",sans-serif}
svg text{fill:currentColor;unicode-bidi:isolate}
svg .dim{fill:var(--dim)}svg .bad{fill:var(--bad)}svg .warn{fill:var(--warn)}
svg a:focus-visible{outline:2px solid var(--link)}
svg a text{fill:var(--link)}svg a:hover text{text-decoration:underline}
.bar{fill:var(--task);rx:2px}
.bar.run,.bar.workflow{fill:none;stroke:var(--run);stroke-width:1.5}
.bar.tool,.bar.integration{fill:var(--tool)}.bar.model{fill:var(--model)}
.bar.failed{fill:var(--bad)}
.bar.run.failed,.bar.workflow.failed{fill:none;stroke:var(--bad)}
.bar.open{stroke:var(--warn);stroke-width:1.5;stroke-dasharray:4 3;fill-opacity:.45}
.stripe{stroke:var(--person);stroke-width:5}
.bar.question{fill:url(#waiting);stroke:var(--person)}
.tick{stroke:var(--line)}.cut{fill:var(--page)}.cutline{stroke:var(--dim);stroke-dasharray:2 3}
.waterfall{min-width:44rem}
@media(max-width:50rem){.waterfall{min-width:20rem}.waterfall .took{display:none}}
.field{fill:var(--panel)}
.row{fill:transparent}
.edge{fill:none;stroke:var(--run);stroke-width:1.5}.edge.derived{stroke-dasharray:5 3}
.edge.link,.edge.fork{stroke-dasharray:1.5 3}
.edge.late{stroke:var(--warn)}
.head{fill:var(--run)}.halo{paint-order:stroke;stroke:var(--panel);stroke-width:4px}
.node{fill:var(--panel);stroke:var(--task);stroke-width:2}
.node.failed{stroke:var(--bad)}.node.erased{stroke-dasharray:2 2}.node.person{stroke:var(--person)}
.lane{stroke:var(--line)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.6rem 0 0;font-size:.875rem;
 color:var(--dim)}
.key svg{vertical-align:-1px;margin-right:.35rem}
@media print{
 html{background:#fff;color:#000;font-size:11px}
 body{max-width:none;padding:0}nav,.skip{display:none}
 section{border:0;padding:0}
 .picture{overflow:visible}
 .talk>li,.events li,tr{break-inside:avoid}h2,summary{break-after:avoid}
}
"""

STYLE = (
    ":root{color-scheme:light dark;"
    + _variables(LIGHT)
    + "}\n@media screen and (prefers-color-scheme:dark){:root{"
    + _variables(DARK)
    + "}}"
    + _RULES
)
"""The whole style sheet. Paper is always light."""
