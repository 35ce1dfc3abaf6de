"""Pictures in 256 colours: a third of the bytes of full colour."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from gsnobench.drawing.rules import GROUND

# A file has 256 colours, a third of the bytes of full colour: so many greys, else the colour maps.
GREYS = 24
STRIP = 0.1  # of a picture's height: how much each map counts where colours are chosen by frequency


def in_few_colours(picture: Image.Image, maps: Sequence[str], *, has_shades: bool) -> Image.Image:
    """With the colours of some maps; with the most frequent ones where it has others, too."""
    if has_shades:
        return _in_frequent_colours(picture, maps)
    if not maps:
        return picture
    return picture.quantize(palette=_palette(maps), dither=Image.Dither.NONE)


def _in_frequent_colours(picture: Image.Image, maps: Sequence[str]) -> Image.Image:
    """Its most frequent colours; each map counts as a strip of it, or colour bars had steps.

    Dots of near colours stand for those between, or lit surfaces had bands. Plain areas have none.
    """
    width, height = picture.size
    high = round(STRIP * height)
    whole = Image.new("RGB", (width, height + high * len(maps)))
    whole.paste(picture, (0, 0))
    for number, name in enumerate(maps):
        strip = matplotlib.colormaps[name](np.linspace(0, 1, width), bytes=True)[None, :, :3]
        rows = np.ascontiguousarray(np.repeat(strip, high, axis=0))
        whole.paste(Image.fromarray(rows), (0, height + number * high))
    median = Image.Quantize.MEDIANCUT
    few = whole.quantize(256, method=median, kmeans=2, dither=Image.Dither.NONE)
    dotted = picture.quantize(palette=few, dither=Image.Dither.FLOYDSTEINBERG)
    return _with_plain_areas(dotted, picture, ("white", GROUND))


def _with_plain_areas(
    dotted: Image.Image, picture: Image.Image, plain: Sequence[str]
) -> Image.Image:
    """Areas of some plain colours as they are: without dots, and in exactly this colour."""
    entries = np.array(dotted.getpalette()).reshape(-1, 3)
    indices, pixels = np.array(dotted), np.asarray(picture)
    for name in plain:
        exact = np.round(255 * np.asarray(to_rgb(name)))
        entry = np.abs(entries - exact).sum(1).argmin()
        entries[entry] = exact
        indices[(pixels == exact).all(-1)] = entry
    mended = Image.fromarray(indices, mode="P")
    mended.putpalette(entries.astype(np.uint8).tobytes())
    return mended


def _palette(names: Sequence[str]) -> Image.Image:
    """Equal shares of the colour maps on a page, and greys for the text."""
    share = (256 - GREYS) // len(names)
    rows = [matplotlib.colormaps[name](np.linspace(0, 1, share))[:, :3] for name in names]
    rows.append(np.repeat(np.linspace(0.133, 1, GREYS)[:, None], 3, axis=1))
    colours = (np.concatenate(rows) * 255).round().astype(np.uint8)
    image = Image.new("P", (1, 1))
    image.putpalette(colours.tobytes())
    return image
