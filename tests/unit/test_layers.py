"""Dependencies point downward only."""

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from package_source import PACKAGE as ROOT
from package_source import tree

# What runs a trial; the pure rooms that conclude, and what they stand on.
_PLANS = {"model", "design", "layouts"}
_TRIALS = {*_PLANS, "analysis", "host", "stack", "load", "observe", "checks", "store"}
_JUDGES = {"planning", "conclude"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "design": {"model"},
    "layouts": {"model", "design"},
    "analysis": {*_PLANS, "gcanalysis"},
    "figures": {"model", "design", "analysis"},
    "gcanalysis": {"model"},
    "capacity": {"model"},
    "advice": {"model"},
    "planning": {*_PLANS, "analysis"},
    "conclude": {*_PLANS, "analysis", "planning"},
    "catalogue": {"model"},
    "host": {"model", "catalogue"},
    "stack": {"model", "catalogue", "host"},
    "load": {"model", "catalogue", "host"},
    "observe": {"model", "host", "gcanalysis"},
    "checks": {*_PLANS, "planning", "host", "stack", "load"},
    "store": {"model", "design", "host", "observe", "checks"},
    "trial": {*_TRIALS, *_JUDGES},
    "places": {*_TRIALS, "catalogue", "trial"},
    "experiments": {*_TRIALS, *_JUDGES, "trial", "places"},
    "report": {
        *(_TRIALS - {"stack", "checks"}),  # what a trial left is read as what comes from outside, so host is there
        *_JUDGES,
        *("figures", "gcanalysis", "capacity", "advice", "trial", "experiments"),
    },
    "api": {
        *(_TRIALS - {"design", "layouts", "analysis"}),
        *_JUDGES,
        *("catalogue", "capacity", "gcanalysis", "trial", "places", "experiments", "report"),
    },
    "web": {"model", "conclude", "trial", "api"},
}
ALLOWED["cli"] = {*ALLOWED}
PURE = {*_PLANS, *_JUDGES, "analysis", "figures", "gcanalysis", "capacity", "advice", "catalogue"}
WORLD = {"subprocess", "socket", "os", "shutil", "tempfile", "threading", "sqlalchemy", "urllib", "signal", "time"}


@cache
def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the layer"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(ROOT).parts[0], path) for path in ROOT.rglob("*.py") if path.parent != ROOT]


def test_every_module_is_in_a_known_layer() -> None:
    assert {layer for layer, _ in modules()} <= set(ALLOWED)


def test_imports_point_downward() -> None:
    wrong = []
    for layer, path in modules():
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "leadline" and len(parts) > 1 and (ROOT / parts[1]).is_dir():
                target = parts[1]
                if target != layer and target not in ALLOWED[layer]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


# Tables of modules that are imported by their names: what each of these defines.
TABLES = {
    "leadline.design.kinds": {"KIND", "KINDS"},
    "leadline.layouts.__init__": {"LAYOUT"},
    "leadline.load.generators.run": {"GENERATOR"},
    "leadline.host.registry": {"HOST"},
    "leadline.host.knobs.__init__": {"FAMILY"},
}


def defined(path: Path) -> set[str]:
    """Names that a module assigns."""
    targets = [target for node in tree(path).body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """So each may be imported first. What functions import does not count."""
    files = {".".join(("leadline", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}
    graph = {}
    for name, path in files.items():
        top = [node for node in tree(path).body if isinstance(node, ast.ImportFrom) and node.module]
        named = {f"{node.module}.{alias.name}" for node in top for alias in node.names}
        graph[name] = ({str(node.module) for node in top} | named) & files.keys()
        if name in TABLES:
            room = name.rpartition(".")[0] + "."
            graph[name] |= {other for other in files if other.startswith(room) and TABLES[name] & defined(files[other])}
            graph[name].discard(name)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_pure_core_does_not_touch_the_world() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for layer, path in modules()
        if layer in PURE
        for name in imports(path)
        if name.split(".")[0] in WORLD
    ]
    assert not wrong, "\n".join(wrong)


# What these do to a machine they do through leadline.host.
WORKERS = ("stack", "observe", "load", "checks", "store", "trial", "places", "experiments")
OTHER_HOSTS = {("places", place) for place in ("ssh", "pool", "virtual", "simulated")}  # each is a host itself
MACHINE_MODULES = {"subprocess", "multiprocessing", "pty", "psutil", "asyncio"}
MACHINE_NAMES = {"kill", "killpg", "system", "popen", "chown", "fchown", "lchown", "getloadavg", "pidfd_open"}
MACHINE_STARTS = ("fork", "exec", "spawn", "posix_spawn", "sched_", "wait")
KERNEL_FILES = ("/proc", "/sys")
# Of leadline.host what does something to processes, users and files of a machine; its host does it for the others.
HOST_INNER = {
    "cgroup",
    "confine",
    "journal",
    "knobs",
    "lease",
    "privilege",
    "procfs",
    "ramdisk",
    "undo",
}


def of_a_machine(tree: ast.AST) -> list[str]:
    """What in a module touches a machine without its host; docstrings are words."""
    found, words = [], {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    words |= {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values[1:]}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="os"), attr=name)
                | ast.ImportFrom(module="os", names=[ast.alias(name=name), *_])
            ) if name in MACHINE_NAMES or name.startswith(MACHINE_STARTS):
                found.append(f"os.{name}")
            case ast.Constant(value=str(text)) if text.startswith(KERNEL_FILES) and node not in words:
                found.append(repr(text))
            case ast.Call(func=ast.Name(id="open" | "Path"), args=[first, *_]) if "id='PROC'" in ast.dump(first):
                found.append(f"line {node.lineno}: a file of the kernel's")
    return found


def test_machines_are_touched_through_their_host_only() -> None:
    wrong = []
    for layer, path in modules():
        if layer in WORKERS and path.relative_to(ROOT).parts[:2] not in OTHER_HOSTS:
            told = [name for name in imports(path) if name.split(".")[0] in MACHINE_MODULES]
            parts = [name.split(".") for name in imports(path)]
            told += [".".join(name) for name in parts if name[:2] == ["leadline", "host"] and HOST_INNER & {*name[2:3]}]
            told += of_a_machine(tree(path))
            wrong += [f"{path.relative_to(ROOT)}: {what}" for what in told]
    assert not wrong, "\n".join(wrong)


def test_what_touches_a_machine_is_seen() -> None:
    code = """
'/proc is told'
from os import fork
def f():
    '/proc/stat is told'
    os.killpg(1, 9); os.sched_getaffinity(0); open("/proc/1/stat"); Path(f"{PROC}/1"); os.environ
"""
    seen = ["'/proc/1/stat'", "line 6: a file of the kernel's", "os.fork", "os.killpg", "os.sched_getaffinity"]
    assert sorted(of_a_machine(ast.parse(code))) == seen


def test_no_two_test_files_have_one_name() -> None:
    # they are imported without packages, so the second of one name is refused where both are collected
    tests = Path(__file__).parents[1]
    names = Counter(path.name for path in tests.rglob("*.py") if "__pycache__" not in path.parts)
    assert names["test_layers.py"] == 1
    assert [name for name, count in names.items() if count > 1] == []


# What others wrote is read in the rooms of received things alone: by type and within bounds.
RAW_MODULES = {"pickle", "marshal", "shelve", "dill"}
RAW_CALLS = {
    ("json", "load"),
    ("json", "loads"),
    ("csv", "reader"),
    ("csv", "DictReader"),
    ("sqlite3", "connect"),
    ("tarfile", "open"),
    ("zipfile", "ZipFile"),
    ("yaml", "load"),
    ("ElementTree", "parse"),
    ("ElementTree", "fromstring"),
    ("HdrHistogram", "decode"),
    ("zlib", "decompress"),
    ("zlib", "decompressobj"),
    ("gzip", "decompress"),
    ("lzma", "decompress"),
    ("np", "load"),
    ("np", "loadtxt"),
    *(("pl", f"{how}_{what}") for how in ("read", "scan") for what in ("parquet", "csv", "json", "ndjson", "database")),
}
RAW_METHODS = {"extractall", "extract", "decode_and_add", "executescript"}
ROOMS = {"model/received.py", "host/received.py", "model/yamltext.py"}
RAW_ALLOWED = {  # each with its reason
    "figures/foreign.py": "a table that a user names, read as text by textfile.read_text within its bounds",
    "figures/pages.py": "the same",
    "host/confine.py": "its own order, which leadline gives it on its command line",
    "host/timed.py": "a request of the leadline that started it and the answer, over a pipe",
    "store/artefacts.py": "a request of the leadline that started it, over a pipe",
    "store/database.py": "a copy of rows that store/rows.py checks when they are read",
    "load/series.py": "histograms: unpacked within bounds before they are decoded",
    "observe/base.py": "unpacked within bounds",
    "observe/stacks.py": "the same",
    "observe/gclog/files.py": "archives: members are counted and their declared sizes bounded before they are unpacked",
    "stack/provision.py": "distributions whose digest is pinned",
    "stack/applications/java.py": "an archive that this checkout built",
    "stack/pages.py": "it writes one",
    "stack/web/common.py": "an archive that this checkout built",
    "stack/own/artifact.py": "the user's own application, which is then run",
    "stack/own/wars/base.py": "configuration of the user's own server, which is then run",
    "stack/servers/glassfish.py": "a file of the server's distribution, whose digest is pinned",
}


def raw_reads(tree: ast.AST) -> set[str]:
    """Calls that read a document, a table, a database or an archive without bounds or types."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names if alias.name in RAW_MODULES}
            case ast.ImportFrom(module=module) if module in RAW_MODULES:
                found.add(module)
            case ast.ImportFrom(module=module, names=names):
                last = (module or "").rpartition(".")[2]
                found |= {f"{last}.{alias.name}" for alias in names if (last, alias.name) in RAW_CALLS}
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (owner, name) in RAW_CALLS:
                found.add(f"{owner}.{name}")
            case ast.Call(func=ast.Attribute(attr=name)) if name in RAW_METHODS:
                found.add(name)
    return found


def test_what_comes_from_outside_is_read_within_bounds() -> None:
    raw = {
        name: told
        for _, path in modules()
        if (name := str(path.relative_to(ROOT))) not in ROOMS and (told := raw_reads(tree(path)))
    }
    assert raw.keys() - RAW_ALLOWED.keys() == set(), "read it by leadline.model.received or leadline.host.received"
    assert RAW_ALLOWED.keys() - raw.keys() == set(), "these need no exception any more"


def test_a_raw_read_is_seen() -> None:
    code = """
import pickle
from json import loads
def f(): pl.read_csv(a); tar.extractall(b); ElementTree.parse(c); json.dumps(d); re.match(e).extract
"""
    assert raw_reads(ast.parse(code)) == {"pickle", "json.loads", "pl.read_csv", "extractall", "ElementTree.parse"}
