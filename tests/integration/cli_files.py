#!/usr/bin/python3
"""The program locksley speaks of inputs by their names: in messages, in JSON, and in the paths of outputs."""

import gzip
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import IO_ERROR, JOBS_FAILED, NO_INPUT, OK, USAGE, CliTest
from locksley_daemon import wait_for


class FilesTest(CliTest):
    # What is not text fails.
    settings = {"handlers": {"gzip": {"command": ["gzip", "-c"]}, "text": {"command": ["iconv", "-f", "UTF-8"]}, "upper": {"command": ["tr", "a-z", "A-Z"]}}}

    def setUp(self):
        super().setUp()
        self.folder = self.daemon.folder / "work"
        for name, content in {"a/one.txt": b"one", "a/two.txt": b"two", "b/three.tar.txt": b"three", "b/bad.txt": b"\xff\xfe"}.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.names = ["a/one.txt", "a/two.txt", "b/three.tar.txt"]

    def there(self, *arguments, names=(), **more):
        """Runs it in the folder; `names` are the lines of its standard input."""
        return self.run_cli(*arguments, stdin="".join(f"{name}\n" for name in names).encode(), cwd=self.folder, **more)

    def tree(self, folder):
        """The files below it with their contents."""
        root = self.folder / folder
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def batches(self):
        return [row["id"] for row in self.command.listed()]


class Names(FilesTest):
    def test_a_failed_job_names_its_file(self):
        everything = [*self.names, "b/bad.txt"]
        for given in ({"names": everything}, {}):
            words = () if given else everything
            done = self.there("run", "text", "--files", *words, **given, code=JOBS_FAILED)
            self.assertEqual(sorted(done.stdout.split()), [b"one", b"three", b"two"])
            self.assertRegex(done.stderr.decode(), r"(?m)^b/bad\.txt \(job 3\): error: ")
        batch = self.there("submit", "text", "--files", names=everything).stdout.decode().strip()
        self.run_cli("wait", batch, code=JOBS_FAILED)
        self.assertRegex(self.there("results", batch, "--files", names=everything).stderr.decode(), r"(?m)^b/bad\.txt \(job 3\): error: ")
        self.assertRegex(self.there("results", batch, "--failed", "--files", *everything).stdout.decode(), r"\Ab/bad\.txt \(job 3\): error: .*\n\Z")
        # Without names by their indexes.
        self.assertRegex(self.there("results", batch).stderr.decode(), r"(?m)^job 3: error: ")

    def test_names_of_any_bytes(self):
        odd = b"new\nline \xff\x1b[2J"
        (self.folder.resolve() / "odd").mkdir()
        path = bytes(self.folder) + b"/odd/" + odd
        with open(path, "wb") as file:
            file.write(b"\xff")
        done = self.run_cli("run", "text", "--files", "-0", stdin=b"odd/" + odd + b"\0a/one.txt\0", cwd=self.folder, code=JOBS_FAILED)
        self.assertRegex(done.stderr, rb"(?m)^odd/new\?line \?\?\[2J \(job 0\): error: ")
        done = self.run_cli("--json", "run", "text", "--files", "-0", stdin=b"odd/" + odd + b"\0", cwd=self.folder, code=JOBS_FAILED)
        self.assertIn("input_base64", json.loads(done.stdout.splitlines()[0]))
        done = self.run_cli("run", "gzip", "--files", "-0", "--results", "out/{/}.gz", stdin=b"odd/" + odd + b"\0", cwd=self.folder)
        with open(bytes(self.folder) + b"/out/" + odd + b".gz", "rb") as file:
            self.assertEqual(gzip.decompress(file.read()), b"\xff")

    def test_with_json_each_job_names_its_input(self):
        rows = {row["index"]: row for row in map(json.loads, self.there("--json", "run", "text", "--files", *self.names).stdout.splitlines())}
        self.assertEqual({index: (row["input"], row["output"]) for index, row in rows.items()}, {0: ("a/one.txt", "one"), 1: ("a/two.txt", "two"), 2: ("b/three.tar.txt", "three")})
        done = self.there("--json", "run", "upper", "--files", "--results", "up/{}", names=self.names)
        self.assertEqual({(row["input"], row["file"]) for row in map(json.loads, done.stdout.splitlines())}, {(name, f"up/{name}") for name in self.names})
        done = self.there("--json", "run", "upper", "a")
        self.assertEqual(json.loads(done.stdout), {"index": 0, "status": "ok", "output": "A"}, "a payload is no name of a file")

    def test_a_hundred_thousand_names_on_their_way(self):
        """Each of the names is that of its job, however the jobs end."""
        names = []
        for i in range(200):
            name = f"f{i:04}" if i % 10 else f"bad{i:04}"
            (self.folder / name).write_bytes(b"\xff" if name.startswith("bad") else b"fine")
            names.append(name)
        names *= 500
        done = self.there("run", "fail", "--files", names=names, code=JOBS_FAILED)
        lines = [line for line in done.stderr.decode().splitlines() if " (job " in line]
        self.assertEqual(len(lines), len(names))
        for line in lines:
            name, index = line.split(": ", 1)[0].removesuffix(")").split(" (job ")
            self.assertEqual(names[int(index)], name)


class Outputs(FilesTest):
    def test_replacement_strings(self):
        for template, expected in (
            ("out/{/}.gz", ["one.txt.gz", "two.txt.gz", "three.tar.txt.gz"]),
            ("out/{}", ["a/one.txt", "a/two.txt", "b/three.tar.txt"]),
            ("out/{.}.z", ["a/one.z", "a/two.z", "b/three.tar.z"]),
            ("out/{//}/{#}-{/.}", ["a/1-one", "a/2-two", "b/3-three.tar"]),
            ("out/{#}", ["1", "2", "3"]),
            ("out/deep/er", ["deep/er/0", "deep/er/1", "deep/er/2"]),
        ):
            for arguments, more in ((("--files", *self.names), {}), (("--files",), {"names": self.names})):
                with self.subTest(template, by="standard input" if more else "arguments"):
                    subprocess.run(["rm", "-rf", self.folder / "out"], check=True)
                    done = self.there("run", "upper", *arguments, "--results", template, **more)
                    self.assertEqual(done.stdout, b"")
                    self.assertEqual(self.tree("out"), dict(zip(expected, [b"ONE", b"TWO", b"THREE"])))

    def test_beside_the_inputs(self):
        self.there("run", "gzip", "--files", "--results", "{}.gz", names=[str(self.folder / self.names[0]), "../work/a/two.txt"])
        self.assertEqual(sorted(self.tree("a")), ["one.txt", "one.txt.gz", "two.txt", "two.txt.gz"])
        self.assertEqual(gzip.decompress(self.tree("a")["one.txt.gz"]), b"one")

    def test_payloads_and_ranges_are_names_too(self):
        self.there("run", "upper", "--results", "out/{}.txt", "x", "y/z")
        self.there("run", "upper", "--results", "out/{}.txt", "--range", -1, 2)
        self.there("run", "upper", "--results", "out/{}.txt", "--range", 7, 9, "n{}")
        self.assertEqual(self.tree("out"), {"x.txt": b"X", "y/z.txt": b"Y/Z", "-1.txt": b"-1", "0.txt": b"0", "1.txt": b"1", "n7.txt": b"N7", "n8.txt": b"N8"})

    def test_a_job_without_output_has_an_empty_file_and_a_failed_one_none(self):
        (self.folder / "empty").write_bytes(b"")
        self.there("run", "text", "--files", "--results", "out/{/}", "empty", "b/bad.txt", "a/one.txt", code=JOBS_FAILED)
        self.assertEqual(self.tree("out"), {"empty": b"", "one.txt": b"one"})

    def test_what_cannot_be_written_is_refused_before_anything_runs(self):
        (self.folder / "b/one.txt").write_bytes(b"other")
        (self.folder / "a/one.txt.gz").write_bytes(b"precious")
        for template, names, said in (
            ("out/{/}", ["a/one.txt", "b/one.txt"], r"the outputs of 'a/one\.txt' and 'b/one\.txt' would both be written to out/one\.txt"),
            ("out/{/}", ["a/one.txt", "a/two.txt", "a/one.txt"], "both be written to"),
            ("out/same{//}", ["a/one.txt", "a/two.txt"], "both be written to out/samea"),
            ("out/{}", ["a/one.txt", "../work/a/two.txt"], r"'\.\./work/a/two\.txt' would leave out/ by a '\.\.'"),
            ("out/{/}/x", ["a/one.txt", "a/.."], "would leave out/"),
            ("{}", ["a/one.txt"], "would be written over the input"),
            ("{}.gz", ["a/one.txt", "a/one.txt.gz"], r"over the input 'a/one\.txt\.gz'"),
            ("out/{}", ["a/"], "names no file"),
            ("a/one.txt/{/}", ["a/two.txt"], r"a/one\.txt/: cannot be made"),
        ):
            for words, more in ((names, {}), ((), {"names": names})):
                with self.subTest(template, names=names, by="standard input" if more else "arguments"):
                    done = self.there("run", "gzip", "--files", "--results", template, *words, **more, code=IO_ERROR)
                    self.assertRegex(done.stderr.decode(), said)
                    self.assertEqual(done.stdout, b"")
        self.assertEqual(self.batches(), [], "none was submitted")
        self.assertFalse((self.folder / "out").exists())
        self.assertEqual((self.folder / "a/one.txt.gz").read_bytes(), b"precious")
        self.assertEqual((self.folder / "a/one.txt").read_bytes(), b"one")

    def test_no_output_is_the_folder_of_another(self):
        (self.folder / "a.txt").write_bytes(b"beside the folder a")
        done = self.there("run", "upper", "--files", "--results", "out/{.}", "a.txt", "a/one.txt", code=IO_ERROR)
        self.assertRegex(done.stderr.decode(), r"/out/a would be the output of 'a\.txt', and the folder of that of 'a/one\.txt'")
        self.assertEqual(self.batches(), [])

    def test_a_symbolic_link_in_place_of_an_output_is_not_followed(self):
        (self.folder / "elsewhere").mkdir()
        (self.folder / "out").symlink_to("elsewhere")
        precious = self.folder / "precious"
        precious.write_bytes(b"precious")
        for link, words in (("0", ("run", "upper", "--results", "out", "a")), ("1.txt", ("run", "upper", "--results", "out/{#}.txt", "a"))):
            (self.folder / "out" / link).symlink_to(precious)
            done = self.there(*words, code=IO_ERROR)
            self.assertRegex(done.stderr.decode(), rf"out/{link}: is a symbolic link, which is not followed")
            (self.folder / "out" / link).unlink()
            self.there(*words)
            self.assertEqual((self.folder / "elsewhere" / link).read_bytes(), b"A", "a link among the folders is followed")
        self.assertEqual(precious.read_bytes(), b"precious")

    def test_a_file_that_is_missing_is_named(self):
        done = self.there("run", "upper", "--files", "--results", "out/{/}", "a/one.txt", "a/none", code=NO_INPUT)
        self.assertIn(b"a/none: No such file", done.stderr)


class OfEarlierBatches(FilesTest):
    def test_the_outputs_of_a_submit(self):
        batch = self.there("submit", "upper", "--files", names=self.names).stdout.decode().strip()
        self.run_cli("wait", batch)
        self.assertEqual(self.there("results", batch, "--results", "by index").stdout, b"")
        self.assertEqual(self.tree("by index"), {"0": b"ONE", "1": b"TWO", "2": b"THREE"})
        self.there("results", batch, "--results", "by number/{#}.txt")
        self.assertEqual(self.tree("by number"), {"1.txt": b"ONE", "2.txt": b"TWO", "3.txt": b"THREE"})
        self.there("results", batch, "--files", "--results", "named/{/.}", names=self.names)
        self.there("results", batch, "--files", *self.names, "--results", "words/{/.}")
        self.assertEqual(self.tree("named"), {"one": b"ONE", "two": b"TWO", "three.tar": b"THREE"})
        self.assertEqual(self.tree("words"), self.tree("named"))
        done = self.run_cli("--json", "results", batch, "--files", "-0", "--results", "nul/{}", stdin="\0".join(self.names).encode(), cwd=self.folder)
        self.assertEqual({(row["input"], row["file"]) for row in map(json.loads, done.stdout.splitlines())}, {(name, f"nul/{name}") for name in self.names})

    def test_a_running_batch_is_followed(self):
        batch = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", "0", "3600000", "0")
        process = self.popen("results", batch, "--follow", "--files", "--results", str(self.folder / "out/{}.ms"), "first", "second", "third")
        wait_for("the first file", lambda: "first.ms" in self.tree("out"))
        self.command("CANCEL", batch)
        self.assertEqual(self.end_of(process, "results"), OK)
        self.assertIn(b"second (job 1): cancelled", process.stderr.read())
        self.assertEqual(list(self.tree("out")), ["first.ms"])

    def test_other_inputs_are_refused_before_anything_is_written(self):
        batch = self.there("submit", "upper", "--files", names=self.names).stdout.decode().strip()
        self.run_cli("wait", batch)
        for names in (self.names[:2], [*self.names, "b/bad.txt"]):
            done = self.there("results", batch, "--files", "--results", "out/{/}", names=names, code=NO_INPUT)
            self.assertIn(f"has 3 jobs, and {len(names)} inputs were given".encode(), done.stderr)
        self.assertIn(b"both be written", self.there("results", batch, "--files", "--results", "out/{//}", names=self.names, code=IO_ERROR).stderr)
        self.assertIn(b"over the input", self.there("results", batch, "--files", "--results", "{}", names=self.names, code=IO_ERROR).stderr)
        self.assertFalse((self.folder / "out").exists())
        self.assertIn(b"needs the names", self.there("results", batch, "--results", "out/{/}", code=USAGE).stderr)
        # More jobs may come to an open batch; the inputs of those that are there must be given.
        self.command("OPEN", "echo", "ID", "open")
        self.command("ADD", "open", "x", "y")
        wait_for("both to end", lambda: self.command.status("open")["ok"] == 2)
        self.there("results", "open", "--files", "--results", "open/{}", names=["a"], code=NO_INPUT)
        self.there("results", "open", "--files", "--results", "open/{}", names=["a", "b", "c"])
        self.assertEqual(self.tree("open"), {"a": b"x", "b": b"y"})

    def test_nul_between_outputs(self):
        batch = self.command("SUBMIT", "upper", "JOBS", "two\nlines", "", "x")
        self.command.wait(batch)
        self.assertEqual(self.run_cli("results", batch, "--ordered", "-0").stdout, b"TWO\nLINES\0X\0")


if __name__ == "__main__":
    unittest.main()
