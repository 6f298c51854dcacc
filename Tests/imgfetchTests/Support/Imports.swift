// The modules that most of these tests use, for all files.

@_exported public import Foundation
@_exported public import Glibc
@_exported public import HTTPValues
@_exported public import IPCProtocol
@_exported public import LinuxSystem
@_exported public import LocalOrigin
@_exported public import SystemValues
@_exported public import TestSupport
@_exported public import Testing
@_exported public import WorkerProtocol
