"""DLPack capsules of read-only memory, made with ctypes: https://dmlc.github.io/dlpack/latest/c_api.html."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Tuple

_READ_ONLY = 1
_IS_COPIED = 2
_UNSIGNED = 1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", _Deleter),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_release_buffer.restype = None
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_new.restype = ctypes.py_object
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_get_pointer.restype = ctypes.c_void_p

_NAME = b"dltensor"
_NAME_VERSIONED = b"dltensor_versioned"

#: The tensors that consumers have, by address, each with all that it points to.
_alive: Dict[int, Any] = {}


def _delete(address: int) -> None:
    _alive.pop(address, None)


def _destroy_capsule(capsule: int) -> None:
    # A consumer renames the capsule that it takes over, and calls the deleter itself.
    for name in (_NAME, _NAME_VERSIONED):
        if _is_valid(capsule, name):
            _alive.pop(_get_pointer(capsule, name), None)


# Functions that C calls, kept as long as the module.
_deleter = _Deleter(_delete)
_destructor = _Deleter(_destroy_capsule)


def capsule(
    pixels: "memoryview[int]", shape: Tuple[int, ...], strides: Tuple[int, ...], *,
    max_version: Optional[Tuple[int, int]], copy: Optional[bool],
) -> Any:
    """Returns a capsule of bytes with `shape` and `strides`, which keeps `pixels` alive. It is read-only if they are."""
    is_versioned = max_version is not None and max_version[0] >= 1
    if copy:
        pixels = memoryview(bytearray(pixels))
    elif pixels.readonly and not is_versioned:
        raise BufferError("the image is read-only: pass max_version=(1, 0) or copy=True")
    view = _Buffer()
    _get_buffer(pixels, ctypes.byref(view), 0)
    address = view.buf
    _release_buffer(ctypes.byref(view))
    shape_array = (ctypes.c_int64 * len(shape))(*shape)
    strides_array = (ctypes.c_int64 * len(strides))(*strides)
    tensor = _Tensor(
        data=address, device=_Device(1, 0), ndim=len(shape), dtype=_DataType(_UNSIGNED, 8, 1),
        shape=ctypes.cast(shape_array, ctypes.POINTER(ctypes.c_int64)),
        strides=ctypes.cast(strides_array, ctypes.POINTER(ctypes.c_int64)), byte_offset=0)
    managed: Any
    if is_versioned:
        flags = _IS_COPIED if copy else _READ_ONLY if pixels.readonly else 0
        managed = _ManagedVersioned(major=1, minor=0, context=None, deleter=_deleter, flags=flags, tensor=tensor)
    else:
        managed = _Managed(tensor=tensor, context=None, deleter=_deleter)
    where = ctypes.addressof(managed)
    _alive[where] = (managed, shape_array, strides_array, pixels)
    destructor = ctypes.cast(_destructor, ctypes.c_void_p)
    try:
        return _capsule_new(where, _NAME_VERSIONED if is_versioned else _NAME, destructor)
    except BaseException:
        del _alive[where]
        raise
