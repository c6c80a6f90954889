// Makes a page of a bundle, to look at by hand: `node look.mjs some.llab page.html [explorer|workbench|graph]`.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const [, , from, to, what = "explorer"] = process.argv;
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const contents = what === "graph"
  ? `import { decode } from "./src/bundle"; import { graphView } from "./src/graph"; import { Store } from "./src/store"; import { sheet, themed } from "./src/styles";
     const bytes = Uint8Array.from(atob(document.getElementById("ll-data").textContent), (one) => one.charCodeAt(0));
     const style = document.createElement("style"); style.textContent = sheet(); document.head.append(style);
     const host = document.createElement("div"); host.className = themed("auto"); host.style.cssText = "height:100vh;border:0;border-radius:0"; document.body.append(host);
     performance.mark("start");
     decode(bytes).then((bundle) => { window.store = new Store(bundle); window.graph = graphView(window.store, host, { side: "after" }); performance.mark("made");
       requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("painted"))); });`
  : `import "./src/widget";`;
const { outputFiles } = await build({
  stdin: { contents, resolveDir: here("."), loader: "ts" }, bundle: true, format: "esm", target: "es2022", write: false, minify: true, charset: "utf8",
});
const data = (await readFile(from)).toString("base64");
const script = outputFiles[0].text.replaceAll("</script", "<\\/script");
await writeFile(to, `<!doctype html><html lang="en"><meta charset="utf-8"><title>${what}</title><style>body{margin:0}</style>
<body>${what === "graph" ? "" : `<div id="ll-page" data-what="${what}" data-theme="auto"></div>`}
<script type="text/plain" id="ll-data">${data}</script><script type="module">${script}</script></body></html>`);
