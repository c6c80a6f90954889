// Bundles the widgets' module into the place that Python serves it from: `node build.mjs [folder]`.
//
// One file serves notebooks (anywidget takes its default export) and exported pages (it opens the
// data it finds in the document). A notebook has a copy of it for each widget, so the file is
// packed: a few lines that unpack the module, and the module, deflated, in a string.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { build, transform } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const STYLES = /^css`([^`]*)`/gm;

// Style sheets are strings to esbuild, which it leaves as they are.
const minifiedStyles = {
  name: "minified styles",
  setup: (bundling) =>
    bundling.onLoad({ filter: /\/src\/\w+\/\w+\.ts$/ }, async ({ path }) => {
      let contents = await readFile(path, "utf8");
      for (const [whole, rules] of contents.matchAll(STYLES)) {
        const { code, warnings } = await transform(rules, { loader: "css", minify: true, target: "chrome110" });
        if (warnings.length) throw new Error(`${path}: ${warnings[0].text}`);
        contents = contents.replace(whole, () => `css\`${code.trim().replaceAll("\\", "\\\\")}\``);
      }
      return { contents, loader: "ts" };
    }),
};

const folder = process.argv.slice(2).find((word) => !word.startsWith("--"));
const target = folder ? resolve(folder) : here("../luminal_lab/viz/static");
const { metafile, outputFiles } = await build({
  entryPoints: { lab: here("src/shell/widget.ts") },
  outdir: target,
  write: false,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
  plugins: [minifiedStyles],
});
/** A module that unpacks another one; Python, which makes pages, finds the text between the quotes. */
const packed = (code) => `const t="${deflateRawSync(code, { level: 9 }).toString("base64")}";
const u=Uint8Array.from(atob(t),c=>c.charCodeAt(0));
const s=new Blob([u]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
const a=URL.createObjectURL(new Blob([await new Response(s).text()],{type:"text/javascript"}));
const m=await import(a);
URL.revokeObjectURL(a);
export default m.default;
`;
await mkdir(target, { recursive: true });
await writeFile(join(target, "lab.js"), packed(outputFiles[0].text));

if (process.argv.includes("--sizes")) {
  const [bundled] = Object.values(metafile.outputs);
  const rows = Object.entries(bundled.inputs).sort((a, b) => b[1].bytesInOutput - a[1].bytesInOutput);
  for (const [path, { bytesInOutput }] of rows) console.log(String(bytesInOutput).padStart(7), path);
  console.log(String(bundled.bytes).padStart(7), "in all, minified");
  console.log(String(packed(outputFiles[0].text).length).padStart(7), "packed");
}
