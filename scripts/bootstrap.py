"""Makes a virtual environment from a requirements file with hashes; called by the Makefile alone.

    python3 scripts/bootstrap.py .venv requirements/dev.txt clients/python .
    python3 scripts/bootstrap.py --over .venv .venv-frameworks requirements/frameworks.txt clients/frameworks

The arguments after the requirements file are projects of this repository, installed editable. With
`--over` the packages of another environment are seen, and only what it lacks is installed. Only
the standard library is used, and no syntax newer than Python 3.6, so that an old interpreter is told
what is wrong instead of failing to read the file.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

MIN_VERSION = (3, 11)
SAY_EVERY_S = 8


def report(text):
    """Prints one line of progress at once, even into a pipe."""
    print(f"==> {text}", flush=True)


def give_up(text):
    """Ends with a plain sentence and no traceback."""
    sys.exit(f"error: {text}")


def venv_python(venv):
    """Path of the environment's interpreter."""
    return os.path.join(venv, "bin", "python")


def packages_folder(venv):
    """Path of the environment's packages."""
    python = "python{}.{}".format(*sys.version_info[:2])
    return os.path.join(os.path.abspath(venv), "lib", python, "site-packages")


def require_packages_of(venv):
    """Gives up where an environment isn't there, or is of another Python than this one."""
    if not os.path.isdir(packages_folder(venv)):
        give_up(
            "{} isn't there, or another Python than {}.{} made it. Run 'make clean' and 'make setup', "
            "or name that Python: make PYTHON=python3.12 …".format(venv, *sys.version_info[:2])
        )


def see_packages_of(other, venv):
    """Has the environment see the packages of another one."""
    require_packages_of(venv)
    with open(os.path.join(packages_folder(venv), "over.pth"), "w", encoding="utf-8") as file:
        file.write(packages_folder(other) + "\n")


def is_usable(venv, needs_pip):
    """Returns whether the environment answers, is new enough and can install."""
    probe = f"import sys; assert sys.version_info >= {MIN_VERSION!r}"
    if needs_pip:
        probe += "; import pip"
    try:
        done = subprocess.run(
            [venv_python(venv), "-c", probe],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def make_venv(venv, uv):
    """Makes a new environment, with uv if it exists and works."""
    shutil.rmtree(venv, ignore_errors=True)
    version = "{}.{}.{}".format(*sys.version_info[:3])
    report(f"making {venv} with Python {version}")
    if uv:
        done = subprocess.run([uv, "venv", "-q", "--python", sys.executable, venv], check=False)
        if done.returncode == 0:
            return
        report("uv could not make it; going on with the standard library")
    try:
        import ensurepip  # noqa: F401 - asked for only to learn whether Debian split it off
        import venv as _venv  # noqa: F401 - the same
    except ImportError:
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        give_up(
            f"this Python cannot make virtual environments. On Debian and Ubuntu install the "
            f"package that brings it: apt-get install {package} (or python3-venv)."
        )
    done = subprocess.run([sys.executable, "-m", "venv", venv], check=False)
    if done.returncode != 0:
        give_up(f"'{sys.executable} -m venv {venv}' failed; its own words are above.")


def megabytes(folder):
    """Size of what lies in a folder that others write to."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # It has just been removed.
                total += os.path.getsize(os.path.join(path, name))
    return total / 1e6


def run(command, doing):
    """Runs an installer: a sign of life every few seconds, and its output only if it fails."""
    # pip fetches into the folder of temporary files, so its size is the progress.
    with tempfile.TemporaryDirectory() as fetched:
        return watch(command, doing, fetched)


def watch(command, doing, fetched):
    """Runs a command with a folder of its own for temporary files, and returns its exit code."""
    lines = []
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        env=dict(os.environ, TMPDIR=fetched),
    )

    def drain():
        lines.extend(line.rstrip() for line in process.stdout)

    reader = threading.Thread(target=drain)
    reader.start()
    start = time.monotonic()
    while reader.is_alive():
        reader.join(SAY_EVERY_S)
        if reader.is_alive():
            last = next((text for text in reversed(lines) if text.strip()), "").strip()
            size = megabytes(fetched)
            so_far = f", {size:.0f} MB" if size >= 1 else ""
            report(f"    {doing}, {time.monotonic() - start:.0f} s{so_far}: {last[:60]}")
    process.stdout.close()
    if process.wait() != 0:
        print("\n".join(lines[-40:]), flush=True)
    return process.returncode


def install(venv, uv, arguments, doing):
    """Installs with uv where it works, else with the environment's own pip."""
    python = venv_python(venv)
    if uv:
        if run([uv, "pip", "install", "--python", python, *arguments], doing) == 0:
            return
        report("uv did not manage; trying pip")
    if not is_usable(venv, needs_pip=True):
        subprocess.run([python, "-m", "ensurepip", "-q"], check=False)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    if run([*pip, *arguments], doing) != 0:
        give_up(f"{doing} failed; the last lines above say why. 'make clean' starts afresh.")


def main():
    """Checks the interpreter, then makes the environment in stages, with a line for each."""
    if sys.version_info < MIN_VERSION:
        give_up(
            "Python {}.{} or newer is needed, and this is {}.{}. Name another one: "
            "make PYTHON=python3.12 …".format(*(MIN_VERSION + sys.version_info[:2]))
        )
    arguments = sys.argv[1:]
    other = arguments[1] if arguments[0] == "--over" else None
    venv, requirements, *projects = arguments[2:] if other else arguments
    uv = shutil.which("uv")
    start = time.monotonic()
    if other:
        require_packages_of(other)
    if not is_usable(venv, needs_pip=uv is None):
        make_venv(venv, uv)
    if other:
        see_packages_of(other, venv)
    with open(requirements, encoding="utf-8") as file:
        count = sum(1 for line in file if line[:1].isalnum())
    report(f"installing {count} packages from {requirements} (checked by hash)")
    # The file names all that is needed: what it leaves out is left out on purpose.
    wheels_only = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    install(venv, uv, [*wheels_only, "-r", requirements], "installing packages")
    if projects:
        report("installing this project, editable")
        editable = [part for project in projects for part in ("-e", project)]
        install(
            venv, uv, ["--no-deps", "--no-build-isolation", *editable], "installing the project"
        )
    report(f"{venv} is ready after {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
