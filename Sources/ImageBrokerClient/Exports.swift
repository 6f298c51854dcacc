// The modules whose types are in the public API, so that `import ImageBrokerClient` is enough to use it.

@_exported public import HTTPValues
@_exported public import IPCProtocol
@_exported public import LinuxSystem
@_exported public import SharedCache
