#!/usr/bin/python3
"""A worker: the name of a picture in, a JPEG out whose longer side has at most THUMBNAIL_SIZE pixels (256, where that is not set)."""

import io
import os
import warnings

import locksley_worker
from PIL import Image, ImageOps, UnidentifiedImageError

SIZE = int(os.environ.get("THUMBNAIL_SIZE", "256"))
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP")  # not EPS, which runs a program
ORIENTATION = 0x0112  # in EXIF: how the camera was held

# A file of a few KiB can say that it holds 50,000 x 50,000 pixels: such a file is refused before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = 250_000_000
warnings.simplefilter("error", Image.DecompressionBombWarning)
MOST_DECODED_PIXELS = 50_000_000  # 4 bytes each, three times over at worst


def thumbnail(name):
    try:
        with Image.open(os.fsdecode(name), formats=FORMATS) as image:
            return as_jpeg(image)
    except UnidentifiedImageError:
        raise ValueError("not a picture, or in none of the formats " + ", ".join(FORMATS)) from None


def as_jpeg(image):
    # A JPEG is decoded at a half, a quarter or an eighth of its size where that is enough: most of the speed, and of the memory.
    image.draft(None, (2 * SIZE, 2 * SIZE))
    if image.width * image.height > MOST_DECODED_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels; at most {MOST_DECODED_PIXELS} are decoded")
    small = in_colour(image)
    small.thumbnail((SIZE, SIZE), Image.Resampling.LANCZOS)
    # Pillow has already turned the pixels of a TIFF.
    small.getexif()[ORIENTATION] = 1 if image.format == "TIFF" else image.getexif().get(ORIENTATION, 1)
    small = ImageOps.exif_transpose(small)
    if small.mode == "RGBA":
        white = Image.new("RGBA", small.size, "white")
        white.alpha_composite(small)
        small = white.convert("RGB")
    profile = image.info.get("icc_profile") if image.mode in ("RGB", "RGBA") else None
    result = io.BytesIO()
    small.save(result, "JPEG", quality=85, icc_profile=profile)
    return result.getvalue()


def in_colour(image):
    """The pixels of a picture of any kind, in RGB, or RGBA if it may be transparent."""
    if image.mode in ("RGB", "RGBA") and "transparency" not in image.info:
        image.load()
        return image
    if image.mode.startswith("I"):  # 16 bits of grey
        return image.convert("I").point(lambda value: value * (1 / 257)).convert("L").convert("RGB")
    return image.convert("RGBA" if image.mode in ("LA", "PA") or "transparency" in image.info else "RGB")


locksley_worker.serve(thumbnail)
