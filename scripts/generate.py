"""Makes the Python code in stepwell_client/{v1,store/v1} from proto/, or proves that it is fresh.

    make generate                            # writes it
    .venv-generate/bin/python -m scripts.generate --check   # says which files differ, exit code 1

Runs in .venv-generate (requirements/generate.txt): code made by grpcio-tools 1.75 works with
protobuf 6.31 and newer, and that version can't live beside the server's own protobuf.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2
from scripts.records import records

TOP = Path(__file__).resolve().parent.parent
PACKAGES = ("v1", "store/v1")
"""The folders below proto/stepwell that are made, each into the folder of its name in stepwell_client."""
RECORDS = "records/messages_pb2.py"
"""The records, which stand beside those that are written by people."""
INIT = '''"""Messages and stubs of the `stepwell.{}` protocol, generated from proto/: never edited."""
'''

ENUMS = '''"""The enums of the `stepwell.v1` protocol, generated from proto/: never edited."""

from __future__ import annotations

from stepwell_client.word import Word'''
_ENUM = 5
"""The number of `enum_type` in a FileDescriptorProto, by which the comments of enums are found."""
_VALUE = 2
"""The number of `value` in an EnumDescriptorProto."""

# Imports, and the module's own name as the message classes carry it. Names of services and of proto
# packages ("stepwell.v1.Orchestrator") have no _pb2 after them and stay.
_IMPORT_FROM = re.compile(r"^(\s*)from stepwell\.((?:store\.)?v1) import ", re.MULTILINE)
_MODULE_NAME = re.compile(r"\bstepwell\.((?:store\.)?v1)\.(?=\w+_pb2)")


def rewrite(text: str) -> str:
    """Moves generated imports from the proto package to the Python package that ships them."""
    text = _IMPORT_FROM.sub(r"\1from stepwell_client.\2 import ", text)
    return _MODULE_NAME.sub(r"stepwell_client.\1.", text)


def generate(proto_root: Path) -> dict[str, str]:
    """Returns the generated files, name to text."""
    protos = sorted(path.relative_to(proto_root) for path in proto_root.glob("stepwell/**/*.proto"))
    if not protos:
        sys.exit(f"error: no stepwell/**/*.proto below {proto_root}")
    well_known = resources.files("grpc_tools") / "_proto"
    # The plugin of mypy-protobuf is found on the PATH: the one of this environment comes first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory() as out:
        command = [
            *(sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc"),
            f"-I{proto_root}",
            f"-I{well_known}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_grpc_out=quiet:{out}",
            *("--include_source_info", f"--descriptor_set_out={out}/set"),
            *(str(proto) for proto in protos),
        ]
        done = subprocess.run(command, check=False, env={**os.environ, "PATH": path})
        if done.returncode != 0:
            sys.exit(f"error: protoc refused the files below {proto_root}; its words are above")
        described = descriptor_pb2.FileDescriptorSet.FromString((Path(out) / "set").read_bytes())
        files = {"v1/enums_pb2.py": enums(described), RECORDS: records(described)}
        for package in PACKAGES:
            files[f"{package}/__init__.py"] = INIT.format(package.replace("/", "."))
            for made in sorted((Path(out) / "stepwell" / package).glob("*.py*")):
                text = made.read_text(encoding="utf-8")
                if made.name.endswith(("_pb2_grpc.py", "_pb2_grpc.pyi")) and not _has_service(text):
                    continue  # a file of messages alone has no stubs worth shipping
                files[f"{package}/{made.name}"] = rewrite(text)
    return files


def enums(described: descriptor_pb2.FileDescriptorSet) -> str:
    """Returns the module of the enums of stepwell.v1: classes whose members have the protocol's comments."""
    lines = [ENUMS]
    for file in described.file:
        if file.package == "stepwell.v1":
            comments = {
                tuple(at.path): at.leading_comments for at in file.source_code_info.location
            }
            for place, kind in enumerate(file.enum_type):
                lines += ["", "", f"class {kind.name}(Word):"]
                lines += [f"    {line}" for line in _docstring(comments[_ENUM, place])]
                lines.append("")
                prefix = kind.value[0].name.removesuffix("UNSPECIFIED")
                for at, value in enumerate(kind.value):
                    lines.append(f"    {value.name.removeprefix(prefix)} = {value.number}")
                    words = comments[_ENUM, place, _VALUE, at]
                    lines += [f"    {line}" for line in _docstring(words)]
    return "\n".join(lines) + "\n"


def _docstring(comment: str) -> Iterator[str]:
    lines = [line.removeprefix(" ") for line in comment.rstrip().splitlines()]
    if len(lines) == 1:
        yield f'"""{lines[0]}"""'
    else:
        yield from (f'"""{lines[0]}', *lines[1:], '"""')


def _has_service(grpc_module: str) -> bool:
    return re.search(r"^class \w+Stub\b", grpc_module, re.MULTILINE) is not None


def present(target: Path) -> dict[str, str]:
    """Returns the generated files that stand below the target folder now, name to text."""
    found = [path for package in PACKAGES for path in sorted((target / package).glob("*.py*"))]
    found += target.glob(RECORDS)
    return {path.relative_to(target).as_posix(): path.read_text(encoding="utf-8") for path in found}


def differences(fresh: dict[str, str], old: dict[str, str]) -> list[str]:
    """One line for each file that is missing, changed, or no longer generated."""
    lines = [f"missing: {name}" for name in sorted(fresh.keys() - old.keys())]
    lines += [
        f"differs: {name}" for name in sorted(fresh) if old.get(name, fresh[name]) != fresh[name]
    ]
    lines += [f"not generated: {name}" for name in sorted(old.keys() - fresh.keys())]
    return lines


def write(target: Path, fresh: dict[str, str]) -> None:
    """Writes what changed, and removes what is generated no longer."""
    old = present(target)
    for name in old.keys() - fresh.keys():
        (target / name).unlink()
    for name, text in fresh.items():
        if old.get(name) != text:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Reads the arguments, then writes or compares."""
    parser = argparse.ArgumentParser(
        description="Generate stepwell_client/{v1,store/v1} from proto/."
    )
    parser.add_argument("--proto-root", type=Path, default=TOP / "proto", help="default: proto/")
    parser.add_argument(
        "--target",
        type=Path,
        default=TOP / "clients" / "python" / "stepwell_client",
        help="default: clients/python/stepwell_client",
    )
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    fresh = generate(arguments.proto_root.resolve())
    changed = differences(fresh, present(arguments.target))
    if not arguments.check:
        write(arguments.target, fresh)
        print(f"{len(fresh)} files in {arguments.target}, {len(changed)} of them new or changed")
    elif changed:
        print("\n".join(changed))
        sys.exit("error: the generated code is not what proto/ says now; run `make generate`")


if __name__ == "__main__":
    main()
