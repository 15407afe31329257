"""Runs a notebook's cells in order, and compares or stores what they print: `notebook.py --run|--update FILE`."""

import os
import sys
import time

import nbformat
from nbclient import NotebookClient

SECONDS_PER_CELL = 3600


def text(cell):
    """What a cell shows as text, all of it: printed or the value at its end."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif output.output_type in ("execute_result", "display_data"):
            parts.append(output.data.get("text/plain", ""))
    return "".join(parts).strip()


def errors(cell):
    return [output for output in cell.get("outputs", []) if output.output_type == "error"]


def main(mode, path):
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    started = time.time()

    def say(message):
        print(f"[notebook] {time.time() - started:5.0f} s  {message}", file=sys.stderr, flush=True)

    client = NotebookClient(
        fresh,
        timeout=SECONDS_PER_CELL,
        startup_timeout=300,
        kernel_name="rust",
        resources={"metadata": {"path": os.path.dirname(path)}},
        allow_errors=True,
    )
    failures = 0
    with client.setup_kernel():
        for index, cell in enumerate(fresh.cells):
            if cell.cell_type != "code":
                continue
            client.execute_cell(cell, index)
            # When a cell ran is of no interest to whoever reads it.
            cell.metadata.pop("execution", None)
            if errors(cell):
                say(f"cell {index} fails:")
                for output in cell.outputs:
                    print(output.get("text") or "\n".join(output.get("traceback", [])), file=sys.stderr)
                return 1
            # What is compiled differs from run to run.
            cell.outputs = [o for o in cell.outputs if o.output_type != "stream" or o.name != "stderr"]
            if mode == "--run" and "compare" in cell.metadata.get("tags", []):
                was, now = text(stored.cells[index]), text(cell)
                if was != now or not now:
                    failures += 1
                    say(f"cell {index} shows something else than is stored. Stored:\n{was}\nNow:\n{now}")
            say(f"cell {index} done")
    if mode == "--update":
        nbformat.write(fresh, path)
        say(f"stored in {path}")
    elif failures:
        say(f"{failures} cells differ; look at them, and store them with scripts/notebook.sh --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
