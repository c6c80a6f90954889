// Python of the browser, under node: compile all files of the package, and find each module of the
// standard library that they name.
//
//     node pyodide.mjs PYODIDE ROOT
//
// prints {"python": …, "files": n, "broken": […], "missing": {module: [files]}} as JSON.
import { pathToFileURL } from "node:url";

const [place, root] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${place}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: place });
python.FS.mkdir("/checkout");
python.FS.mount(python.FS.filesystems.NODEFS, { root }, "/checkout");
const said = await python.runPythonAsync(`
import importlib.util, json, pathlib, re, sys
IMPORTS = re.compile(r"^ *(?:from ([a-z_][\\w.]*) import |import ([a-z_][\\w., ]*))", re.M)
files, broken, named = 0, [], {}
for path in sorted(pathlib.Path("/checkout/luminal_lab").rglob("*.py")):
    name = str(path.relative_to("/checkout"))
    files += 1
    text = path.read_text("utf-8")
    try:
        compile(text, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        broken.append(f"{name}: {error}")
    for one, several in IMPORTS.findall(text):
        for module in [one] if one else (each.split()[0] for each in several.split(",") if each.strip()):
            if module.partition(".")[0] in sys.stdlib_module_names:
                named.setdefault(module, set()).add(name)
def is_here(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
missing = {module: sorted(places) for module, places in sorted(named.items()) if not is_here(module)}
json.dumps({"python": sys.version.split()[0], "platform": sys.platform, "files": files,
            "modules": len(named), "broken": broken, "missing": missing})
`);
process.stdout.write(said);
