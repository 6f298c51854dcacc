// The modules that most of these tests use, for all files.

@_exported public import CodingTestSupport
@_exported public import Foundation
@_exported public import HTTPValues
@_exported public import IPCProtocol
@_exported public import JSONCoding
@_exported public import SystemValues
@_exported public import Testing
