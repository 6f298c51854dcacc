"""The options of requests, and their form on the wire."""

from __future__ import annotations

from typing import Any, Callable, FrozenSet, Iterable, List, Literal, Mapping, Sequence, Set, Tuple, TypedDict, Union

from ._wire import Fields


class GetOptions(TypedDict, total=False):
    """How to load an image; the fields of the protocol's `get` and of its variant object. What is left out has the
    protocol's default. Sizes are pixels; times end in `_ms`."""

    width: int
    height: int
    fit: Literal["inside", "contain", "cover", "fill"]
    scale_down: bool
    linear: bool
    pixel_format: Literal["rgba8", "bgra8", "rgb8", "gray8"]
    alpha: Literal["premultiplied", "straight"]
    frame: Union[int, Literal["all"]]
    #: (first, count): a part of an animation, in place of `frame`; needs the addition `frame-range`.
    frames: Tuple[int, int]
    #: (x, y, width, height) in pixels of the source as shown; needs the addition `steps`.
    crop: Tuple[int, int, int, int]
    #: Objects with `op`, in order; needs the addition `steps`.
    steps: Sequence[Mapping[str, Any]]
    #: The part that `cover` keeps, and the place on the canvas of a step `pad`: a name such as `top-left`, `entropy` or `attention`,
    #: or the shares (x, y) of a focal point; needs the addition `position`.
    position: Union[str, Tuple[float, float]]
    #: `#rrggbb` behind `rgb8` and `gray8`.
    background: str
    #: The name of a variant in the broker's configuration, in place of all options above; needs the addition `presets`.
    preset: str
    #: The protocol's `as`.
    as_: Literal["pixels", "original", "png", "jpeg", "webp"]
    quality: int
    #: `header` describes the image without decoding it: `image.description`; needs the addition `header`.
    delivery: Literal["fd", "inline", "none", "header"]
    #: `exif`, `xmp` and `icc`: the metadata blocks of the file, for `image.metadata`; needs the addition `metadata`.
    metadata: Sequence[Literal["exif", "xmp", "icc"]]
    #: `fast` decodes a preview in the file that is at least as large as the result; needs the addition `embedded`.
    embedded: Literal["off", "fast"]
    cache: Literal["default", "no-cache", "reload", "force-cache", "only-if-cached", "no-store"]
    storage: Literal["both", "memory", "disk", "none"]
    priority: Literal["normal", "low", "high"]
    retry_failed: bool
    timeout_ms: int
    total_timeout_ms: int
    #: The age in seconds that a cached response may have at most; needs the addition `max-age`.
    max_age_seconds: int
    #: The retries of a failed transfer, at most those of the broker; needs the addition `retries`.
    retries: int
    #: At most 4 URLs that are loaded instead, each when the one before fails; needs the addition `alternatives`.
    alternatives: Sequence[str]
    headers: Mapping[str, str]
    #: (user name, password).
    credentials: Tuple[str, str]
    cookies: bool
    cache_key: str
    allow_invalid_certificates: bool
    #: `accept` decodes as much of a damaged image as possible; needs the addition `damaged`.
    damaged: Literal["refuse", "accept"]
    #: The name of a local file in events and logs.
    name: str
    #: States where the time of the request went: `spans` of the image.
    trace: bool


_IN_VARIANT = frozenset((
    "width", "height", "fit", "scale_down", "linear", "pixel_format", "alpha", "frame", "frames", "crop", "steps", "position",
    "background",
))


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


#: The field of each option.
_FIELDS = {name: _wire_name(name) for name in GetOptions.__annotations__}


def _members(*names: str) -> Callable[[Iterable[Any]], Fields]:
    """Returns a function that makes an object of values, whose members have these names."""
    return lambda values: dict(zip(names, values))


#: What makes the JSON form of options that have another one here.
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "crop": _members("x", "y", "width", "height"), "frames": _members("first", "count"),
    "steps": lambda steps: [dict(step) for step in steps],
    "position": lambda place: place if isinstance(place, (str, Mapping)) else {"x": place[0], "y": place[1]},
    "credentials": lambda pair: {"username": pair[0], "password": pair[1]},
    "headers": dict, "metadata": list, "alternatives": list,
}
#: The addition to the protocol that an option needs.
_ADDITIONS = {
    "crop": "steps", "steps": "steps", "frames": "frame-range", "position": "position", "preset": "presets",
    "max_age_seconds": "max-age", "retries": "retries", "alternatives": "alternatives",
}
#: The additions that some values of an option need.
_ADDITIONS_OF_VALUES = {
    "pixel_format": {"rgb8": "rgb8", "gray8": "gray8"}, "damaged": {"accept": "damaged"},
    "delivery": {"header": "header"}, "embedded": {"fast": "embedded"},
}


def wire_options(options: Mapping[str, Any]) -> Tuple[Fields, FrozenSet[str]]:
    """Returns the fields for `options`, and the additions to the protocol that they need.

    A broker without an addition would ignore its fields and return another image, so such a request is not sent to it.
    Raises `TypeError` for an unknown option.
    """
    fields: Fields = {}
    variant: Fields = {}
    features: Set[str] = set()
    for name, value in options.items():
        if name not in _FIELDS:
            raise TypeError(f"unknown option {name!r}")
        if name in _FORMS:
            value = _FORMS[name](value)
        (variant if name in _IN_VARIANT else fields)[_FIELDS[name]] = value
        if name in _ADDITIONS:
            features.add(_ADDITIONS[name])
        elif name == "metadata" and value:
            features.add("metadata")
        elif name in _ADDITIONS_OF_VALUES:
            features.update(addition for part, addition in _ADDITIONS_OF_VALUES[name].items() if part == value)
    if variant:
        fields["variant"] = variant
    return fields, frozenset(features)


#: The protocol's limits of one `prefetch`.
_URLS_IN_ONE_PREFETCH = 1_000
_BYTES_IN_ONE_PREFETCH = 196_608
#: Below the limit of values, escapes and characters beyond ASCII in a request.
_SPECIALS_IN_ONE_PREFETCH = 16_384


def prefetch_parts(urls: Sequence[str]) -> List[List[str]]:
    """Divides URLs into parts that the broker accepts in one request each; one empty part for no URLs."""
    parts: List[List[str]] = [[]]
    size = specials = 0
    for url in urls:
        encoded = len(url.encode("utf-8", "surrogatepass"))
        special = sum(1 for character in url if not "\x20" <= character < "\x7f" or character in '"\\<>^`{|} ')
        # In canonical spelling, such a character has three characters for each of its bytes.
        length = encoded if not special else 3 * encoded
        if parts[-1] and (
            len(parts[-1]) >= _URLS_IN_ONE_PREFETCH or size + length > _BYTES_IN_ONE_PREFETCH
            or specials + special > _SPECIALS_IN_ONE_PREFETCH
        ):
            parts.append([])
            size = specials = 0
        parts[-1].append(url)
        size += length
        specials += special
    return parts


def default_socket(environment: Mapping[str, str], exists: Any) -> str:
    """Returns the default path of the socket: `$IMGBROKER_SOCKET`, else the user's broker if it exists, else the
    system's."""
    if environment.get("IMGBROKER_SOCKET"):
        return environment["IMGBROKER_SOCKET"]
    directory = environment.get("XDG_RUNTIME_DIR")
    if directory and exists(f"{directory}/imgbroker.sock"):
        return f"{directory}/imgbroker.sock"
    return "/run/imgbroker.sock"
