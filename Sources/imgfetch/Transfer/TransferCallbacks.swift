internal import CTransfer
import HTTPValues

// libcurl calls these during `curl_multi_socket_action` and `curl_multi_add_handle`. The context is the transfer, which
// outlives its handle.

extension Transfer {
    func setCallbacks() {
        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe ctransfer_set_pointer(handle.raw, CURLOPT_PRIVATE, this)
        unsafe ctransfer_set_header_callback(handle.raw, headerCallback, this)
        unsafe ctransfer_set_body_callback(handle.raw, bodyCallback, this)
        unsafe ctransfer_set_socket_callback(handle.raw, socketCallback, this)
    }

    /// The transfer that is registered with libcurl's `handle`.
    static func of(_ handle: UnsafeMutableRawPointer) -> Transfer? {
        unsafe transfer(behind: ctransfer_pointer(handle, CURLINFO_PRIVATE))
    }
}

private let headerCallback: curl_write_callback = { bytes, size, count, context in
    guard let transfer = unsafe transfer(behind: context) else { return 0 }
    let line = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
    // Any number other than that of the bytes ends the transfer.
    return unsafe transfer.headerLineReceived(line) ? line.count : line.count + 1
}

private let bodyCallback: curl_write_callback = { bytes, size, count, context in
    guard let transfer = unsafe transfer(behind: context) else { return 0 }
    let piece = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
    switch unsafe transfer.bodyReceived(piece) {
    case .goesOn: return piece.count
    case .ends: return piece.count + 1
    case .pauses: return Int(CURL_WRITEFUNC_PAUSE)
    }
}

private let socketCallback: curl_opensocket_callback = { context, _, address in
    guard let transfer = unsafe transfer(behind: context), let address = unsafe address else { return CURL_SOCKET_BAD }
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = unsafe ctransfer_address_bytes(address, &bytes)
    guard transfer.mayConnect(to: IPAddress(bytes: Array(bytes.prefix(count)))) else { return CURL_SOCKET_BAD }
    let type = unsafe address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
    let socket = unsafe socket(address.pointee.family, type, address.pointee.protocol)
    return socket < 0 ? CURL_SOCKET_BAD : socket
}

private func transfer(behind context: UnsafeMutableRawPointer?) -> Transfer? {
    unsafe context.map { unsafe Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
}
