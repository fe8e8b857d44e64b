#!/usr/bin/python3
"""deploy/examples/thumbnails, as it stands there, on pictures made here: of several kinds and sizes, turned, transparent, broken, and bombs. And what its
page does with the Python package."""

import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from PIL import Image, ImageCms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from examples import EXAMPLES, ROOT, ExampleTest, processes_of
from locksley_daemon import DEADLINE_S, program
from page_programs import Page

RED, GREEN, BLUE, WHITE, GREY = (220, 30, 30), (30, 180, 40), (30, 40, 200), (255, 255, 255), (128, 128, 128)
CORNERS = (RED, GREEN, BLUE, GREY)  # top left, top right, bottom left, bottom right
ORIENTATION = 0x0112
TURNS = {  # what has to be done to a picture for its pixels to lie as this EXIF orientation says
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
DIFFERENCE = 12  # of a colour, after JPEG


def picture(width, height, colours=CORNERS):
    """A quarter of each colour."""
    image = Image.new("RGB", (2, 2))
    image.putdata(colours)
    return image.resize((width, height), Image.Resampling.NEAREST)


class Thumbnails(ExampleTest):
    def setUp(self):
        self.daemon = self.start_example("thumbnails")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="locksley-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.pictures, self.results = self.folder / "my pictures", self.folder / "small"
        self.pictures.mkdir()

    def save(self, name, image, **options):
        path = self.pictures / name
        path.parent.mkdir(exist_ok=True)
        image.save(path, **options)

    def run_script(self, code=0):
        environment = dict(os.environ, LC_ALL="C.UTF-8", LOCKSLEY=program("LOCKSLEY"), LOCKSLEY_URL=f"redis://{self.daemon.host}:{self.daemon.port}")
        words = [EXAMPLES / "thumbnails/thumbnails", self.pictures, self.results]
        done = subprocess.run(words, capture_output=True, text=True, timeout=2 * DEADLINE_S, env=environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def assert_thumbnail(self, name, size, colours=CORNERS):
        with Image.open(self.results / (name + ".jpg")) as image:
            self.assertEqual((image.format, image.mode, image.size), ("JPEG", "RGB", size), name)
            self.assertEqual(image.getexif().get(ORIENTATION, 1), 1, name)
            width, height = size
            places = [(x, y) for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
            for place, expected in zip(places, colours, strict=True):
                found = image.getpixel(place)
                self.assertLessEqual(max(abs(a - b) for a, b in zip(found, expected)), DIFFERENCE, (name, place, found, expected))

    def test_kinds_and_sizes(self):
        self.save("large.jpg", picture(1600, 1200), quality=90)
        self.save("tall.webp", picture(300, 900), quality=90)
        self.save("small.bmp", picture(100, 50))
        self.save("line.tif", picture(1000, 2))
        self.save("palette.gif", picture(512, 512).quantize(16))
        self.save("deeper/a name\nof two lines.JPEG", picture(512, 256))
        self.save("not utf-8 \udcff.Jpg", picture(512, 256))
        self.save("print.jpg", picture(512, 256).convert("CMYK"))
        grey = (40,) * 3, (200,) * 3, (90,) * 3, (128,) * 3
        self.save("scan.png", picture(512, 512, grey).convert("L").convert("I").point(lambda value: value * 257).convert("I;16"))
        transparent = picture(400, 400).convert("RGBA")
        transparent.paste((0, 0, 0, 0), (0, 0, 200, 200))
        self.save("transparent.png", transparent)
        self.save("transparent.gif", transparent)
        (self.pictures / "notes.txt").write_text("no picture, and not asked for")
        self.run_script()
        self.assert_thumbnail("large.jpg", (256, 192))
        self.assert_thumbnail("tall.webp", (85, 256))
        self.assert_thumbnail("small.bmp", (100, 50))
        with Image.open(self.results / "line.tif.jpg") as line:
            self.assertEqual(line.size, (256, 1))
        self.assert_thumbnail("palette.gif", (256, 256))
        self.assert_thumbnail("deeper/a name\nof two lines.JPEG", (256, 128))
        self.assert_thumbnail("not utf-8 \udcff.Jpg", (256, 128))
        self.assert_thumbnail("print.jpg", (256, 128))
        self.assert_thumbnail("scan.png", (256, 256), grey)
        self.assert_thumbnail("transparent.png", (256, 256), (WHITE, GREEN, BLUE, GREY))
        self.assert_thumbnail("transparent.gif", (256, 256), (WHITE, GREEN, BLUE, GREY))
        files = sorted(str(path.relative_to(self.results)) for path in self.results.rglob("*"))
        self.assertEqual(len(files), 12, files)  # eleven pictures and a folder

    def test_a_picture_is_shown_as_the_camera_was_held(self):
        for orientation, turn in TURNS.items():
            image = picture(800, 400)
            if turn is not None:
                image = image.transpose(turn)
            exif = Image.Exif()
            exif[ORIENTATION] = orientation
            self.save(f"{orientation}.jpg", image, exif=exif, quality=90)
            self.save(f"{orientation}.png", image, exif=exif)
            self.save(f"{orientation}.tif", image, tiffinfo={ORIENTATION: orientation})
        self.run_script()
        for orientation in TURNS:
            for kind in ("jpg", "png", "tif"):
                self.assert_thumbnail(f"{orientation}.{kind}", (256, 128))

    def test_colours_keep_their_profile(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        self.save("profile.jpg", picture(512, 512), icc_profile=profile, quality=90)
        self.run_script()
        with Image.open(self.results / "profile.jpg.jpg") as image:
            self.assertEqual(image.info.get("icc_profile"), profile)

    def test_broken_pictures_fail_and_the_others_do_not(self):
        whole = io.BytesIO()
        picture(800, 800).save(whole, "JPEG")
        (self.pictures / "cut.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
        (self.pictures / "words.jpg").write_text("This is not a picture.")
        (self.pictures / "empty.png").write_bytes(b"")
        (self.pictures / "program.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
        self.save("good.jpg", picture(512, 512))
        said = self.run_script(code=1)
        self.assert_thumbnail("good.jpg", (256, 256))
        self.assertEqual([path.name for path in self.results.iterdir()], ["good.jpg.jpg"])
        self.assertEqual(len(re.findall(r"job \d: error: ValueError: not a picture, or in none of the formats JPEG, ", said)), 3, said)
        self.assertRegex(said, r"job \d: error: OSError: image file is truncated")
        for name in ("cut.jpg", "words.jpg", "empty.png", "program.jpg"):
            self.assertRegex(said, rf"no thumbnail of job \d, {self.pictures}/{name}\n")

    def test_a_name_without_a_file(self):
        run = self.connect(self.daemon)
        (status, text), = run("RUN", "thumbnail", "JOBS", "/no/such/picture.jpg")
        self.assertEqual(status, "error")
        self.assertRegex(text, "^FileNotFoundError: .*/no/such/picture.jpg")

    def test_bombs_are_refused_before_they_take_memory(self):
        self.save("bomb.png", Image.new("1", (20_000, 20_000)))
        self.save("large.png", Image.new("1", (9_000, 9_000)))
        self.save("good.jpg", picture(512, 512))
        large = Image.new("L", (8_000, 6_500), 128)  # as a camera makes them: never decoded whole
        self.save("large.jpg", large)
        said = self.run_script(code=1)
        self.assertRegex(said, r"error: DecompressionBombWarning: Image size \(400000000 pixels\) exceeds limit")
        self.assertRegex(said, r"error: ValueError: 9000 x 9000 pixels; at most 50000000 are decoded")
        self.assert_thumbnail("good.jpg", (256, 256))
        self.assert_thumbnail("large.jpg", (256, 208), (GREY,) * 4)
        workers = processes_of(self.daemon, "thumbnail.py")
        self.assertTrue(workers)
        for process in workers:
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())[1]) * 1024
            self.assertLess(peak, 150 << 20)  # large.png would take 324 MB, bomb.png 1.6 GB


class WithThePackage(unittest.TestCase):
    def test_the_page_does_what_it_says(self):
        page = Page(self, EXAMPLES / "thumbnails/README.md", {"PYTHONPATH": str(ROOT / "proto/clients/python"), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(page.carry_out(), 13)
        sizes = {}
        for path in (page.folder / "thumbnails").rglob("*.jpg"):
            with Image.open(path) as image:
                sizes[path.relative_to(page.folder / "thumbnails").as_posix()] = image.size
        self.assertEqual(sizes, {f"acme/{number}.jpg.jpg": (256, 192) for number in range(6)} | {"zoo/0.jpg.jpg": (256, 192), "zoo/logo.png.jpg": (256, 256)})


if __name__ == "__main__":
    os.chdir(ROOT)  # the example's paths begin there
    unittest.main()
