"""The documents point at what is there: links between them, files that they name, and the picture that a script draws."""
import pathlib
import re
import runpy
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for folder in ("docs", "deploy", "tests") for path in (ROOT / folder).rglob("*.md"))]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Files (with an extension) and folders (with a slash at the end) between backticks; * stands for any characters of a name.
FOLDERS = "bench|client|common|decode_worker|deploy|docs|prefill_worker|proto|router|scripts|tests"
PATH = re.compile(rf"`((?:{FOLDERS})/(?:[\w./*-]*(?:\.\w+|/))?)`")
RECORDS = ("docs/planted_bugs.md",)  # pages that record a run and name the files of that time
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def relative(path):
    return path.relative_to(ROOT).as_posix()


def prose(path):
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path):
    """The names under which the page's headings are linked to."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Documents(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        broken = []
        for page in DOCUMENTS:
            for link in LINK.findall(prose(page)):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = page.parent / name if name else page
                if not target.exists() or (anchor and anchor not in anchors(target)):
                    broken.append(f"{relative(page)}: {link}")
        self.assertEqual(broken, [])

    def test_every_named_file_exists(self):
        broken = [
            f"{relative(page)}: {name}"
            for page in DOCUMENTS
            if relative(page) not in RECORDS
            for name in PATH.findall(prose(page))
            if not any(ROOT.glob(name.rstrip("/")))
        ]
        self.assertEqual(broken, [])

    def test_every_named_test_is_in_the_file_that_is_named_before_it(self):
        named, broken, file = set(), [], None
        for word in re.findall(r"`([^`\n]+)`", prose(ROOT / "docs/complaints.md")):
            if PATH.fullmatch(f"`{word}`"):
                file = ROOT / word
            elif match := re.fullmatch(r"(test_\w+)|([A-Z]\w+)\.([A-Z]\w+)", word):
                python, suite, test = match.groups()
                definition = rf"def {python}\(" if python else rf"TEST(_F|_P)?\({suite},\s*{test}\)"
                named.add(word)
                if not re.search(definition, file.read_text(encoding="utf-8")):
                    broken.append(f"{relative(file)}: {word}")
        self.assertEqual(broken, [])
        self.assertGreater(len(named), 30)

    def test_the_recipes_for_reverse_proxies_show_the_files_that_a_test_runs(self):
        shown = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
        files = sorted((ROOT / "deploy/reverse_proxy").iterdir())
        self.assertEqual([file.name for file in files], ["Caddyfile", "haproxy.cfg", "nginx.conf"])
        hidden = [file.name for file in files if f"`{relative(file)}`:\n\n```\n{file.read_text(encoding='utf-8')}```\n" not in shown]
        self.assertEqual(hidden, [])

    def test_every_reference_is_defined_and_every_definition_is_used(self):
        for page in DOCUMENTS:
            defined = re.findall(r"^\[([\w-]+)\]: \S", prose(page), re.MULTILINE)
            used = set(re.findall(r"\]\[([\w-]+)\]", prose(page)))
            if defined:
                self.assertEqual(sorted(used), sorted(defined), relative(page))

    def test_the_comparison_counts_the_architectures_that_are_served(self):
        served = re.findall(r'\{\.name = "', (ROOT / "common/model/architectures.cc").read_text(encoding="utf-8"))
        numbers = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
        counted = re.findall(r"(\w+) architectures", prose(ROOT / "docs/comparison.md"))
        self.assertEqual(set(counted), {numbers[len(served) - 10]})

    def test_the_page_about_one_gpu_names_the_types_that_a_gpu_serves(self):
        source = (ROOT / "common/backend/cuda/weight/cuda_weight.cc").read_text(encoding="utf-8")
        served = re.findall(r"case GgmlType::k(\w+):\n +return CudaElement", source)
        named = re.search(r"A GPU serves ([^.]*)\.", prose(ROOT / "docs/one_gpu.md")).group(1)
        self.assertEqual(sorted(re.findall(r"\w*\d\w*", named)), sorted(element.upper() for element in served))

    def test_the_page_about_one_gpu_names_the_least_driver_toolkit_and_gpu(self):
        text = " ".join(prose(ROOT / "docs/one_gpu.md").split())
        source = (ROOT / "common/backend/cuda_versions.h").read_text(encoding="utf-8")
        toolkit = int(re.search(r"kLeastCudaToolkit = (\d+);", source).group(1))
        driver = re.search(r'kLeastToolkitsDriver\[\] = "(\d+)";', source).group(1)
        major = re.search(r"kLeastComputeMajor = (\d+);", source).group(1)
        self.assertIn(f"from {driver} on for one by {toolkit // 1000}.{toolkit % 1000 // 10}", text)
        self.assertIn(f"compute capability {major}.0 or newer", text)

    def test_pages_about_gpus_name_flags_that_exist(self):
        source = (ROOT / "common/flags/known_variables.cc").read_text(encoding="utf-8")
        flags = re.findall(r'"([a-z][\w-]*)"', re.search(r"kFlags\[\] = \{(.*?)\};", source, re.DOTALL).group(1))
        for name in ("docs/one_gpu.md", "docs/gpu.md", "docs/comparison.md"):
            text = (ROOT / name).read_text(encoding="utf-8")
            commands = re.findall(r"^baton .*$", text, re.MULTILINE) + re.findall(r"`(?:baton[ \w]* )?(--[^`\n]*)`", text)
            named = re.findall(r"(?<!\S)--([a-z][\w-]*)", "\n".join(commands))
            self.assertEqual(sorted(set(named) - set(flags)), [], name)
            self.assertTrue(named, name)

    def test_the_architecture_is_one_page(self):
        words = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split()
        self.assertLessEqual(len(words), 1200)

    def test_the_readme_is_read_in_minutes(self):
        words = prose(ROOT / "README.md").split()
        self.assertLessEqual(len(words), 900)

    def test_the_readme_answers_in_the_order_of_a_strangers_questions(self):
        text = prose(ROOT / "README.md")
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        self.assertEqual(headings, ["Quick start", "Should I use it?", "Kill a worker", "Models", "Calling it", "Where to read on",
                                    "Licence"])
        self.assertLess(text.index("](docs/request_path.svg)"), text.index("## Quick start"))
        (numbers,) = re.findall(r"^\*\*Measured\*\*(.*?)^## ", text, re.MULTILINE | re.DOTALL)
        rows = re.findall(r"^\| .*\(docs/benchmarks/\w+\.md\)", numbers, re.MULTILINE)
        self.assertGreaterEqual(len(rows), 3)
        self.assertIn("**Slower than the peer**", numbers)

    def test_the_tables_of_models_name_what_the_code_serves(self):
        def source(path):
            return (ROOT / path).read_text(encoding="utf-8")

        text = prose(ROOT / "docs/models.md")
        served = re.findall(r'\{\.name = "([\w-]+)"', source("common/model/architectures.cc"))
        (row,) = re.findall(r"^\| architectures \| (.*) \|$", text, re.MULTILINE)
        self.assertEqual(re.findall(r"`([^`]+)`", row), served)
        joined = re.sub(r'"\s*\n\s*"', "", source("common/backend/cpu/product/cpu_weight.cc"))
        types = re.findall(r"\w*\d\w*", re.search(r'supported are (F32.*?)"\)', joined).group(1))
        (row,) = re.findall(r"^\| tensor types \| (.*) \|$", text, re.MULTILINE)
        self.assertEqual(sorted(row.split(", ")), sorted(types))
        for page in ("README.md", "docs/models.md"):
            names = re.search(r"whose names end in\s(.*?)\swork\b", prose(ROOT / page), re.DOTALL).group(1)
            files = {name.removesuffix("_*") for name in re.findall(r"`([^`]+)`", names)}
            self.assertEqual(files, set(types) - {"F32"}, page)

    def test_every_page_is_in_the_list_of_pages(self):
        listed = set(LINK.findall(prose(ROOT / "docs/README.md")))
        pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
        self.assertEqual(sorted(pages - listed), [])

    def test_the_picture_is_what_its_script_draws(self):
        script = runpy.run_path(str(ROOT / "scripts/draw_request_path.py"))
        self.assertEqual(script["SVG"].read_text(encoding="utf-8"), script["draw"]())


if __name__ == "__main__":
    unittest.main(verbosity=2)
