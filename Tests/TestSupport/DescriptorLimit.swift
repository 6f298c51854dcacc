internal import Glibc
package import LinuxSystem

/// Lowers this process's limit of open descriptors to 256 and takes all that are free, for exit tests.
///
/// - Returns: duplicates of `file`; releasing one makes room for another descriptor.
package func takeAllDescriptors(asCopiesOf file: FileDescriptor) -> [FileDescriptor] {
    var limit = rlimit()
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = 256
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var taken: [FileDescriptor] = []
    while let copy = try? file.duplicate() { taken.append(copy) }
    return taken
}
