import LinuxSystem
import SystemValues

// Files that are not in the index are added, rows without a file are removed, and rows whose file has another size are
// replaced (the process was killed after it had replaced the file and before it committed). Half-written files are
// removed.
extension Store {
    func reconcile(until deadline: Instant) {
        while var state = reconciliation, Instant.now < deadline {
            // A step may lose the index, which starts another reconciliation.
            reconciliation = nil
            let isFinished = step(&state)
            if reconciliation != nil || index == nil { continue }
            if isFinished {
                forgotten.removeCompleted()
                for kind in EntryKind.allCases { noteSize(of: kind) }
                nextAgeCheck = .now
                beginKeyReport()
            } else {
                reconciliation = state
            }
        }
    }

    private func step(_ state: inout Reconciliation) -> Bool {
        let step = state.next(in: directory) { kind, lowest in
            withIndex { try $0.firstFileName(kind, from: lowest) }
        } rows: { kind, prefix in
            withIndex { try $0.fileNames(kind, prefix: prefix) } ?? []
        }
        switch step {
        case .started: if obstacle == nil { try? directory.removeTemporaries() }
        case .missingFile(let name):
            // The entry may have been stored again since.
            do throws(SystemError) {
                if try FileSystem.status(of: directory.file(name)) == nil { dropRow(name) }
            } catch  where error.isMissingPath {
                dropRow(name)
            } catch {}
        case .knownFile(let name):
            if removeDuplicate(name) { break }
            guard let known = withIndex({ try $0.size(of: name) }),
                let status = try? FileSystem.status(of: directory.file(name)), status.size != known
            else { break }
            dropRow(name)
            adopt(name)
        case .unknownFile(let kind, let relative):
            let name = EntryName(kind: kind, fileName: String(relative.dropFirst(3)))
            if let name, relative.hasPrefix(name.prefix + "/") {
                adopt(name)
            } else {
                // The file has no entry's name: it can never be found, and its size is not counted.
                try? FileDescriptor.remove("\(directory.directory(of: kind))/\(relative)")
            }
        case .advanced: break
        case .finished: return true
        }
        return false
    }

    func dropRow(_ name: EntryName) { withIndex { try $0.remove(name) } }

    /// Removes the older one of a file and a small entry with the same name: the process was killed after it had stored
    /// the newer. Returns whether the file was removed.
    private func removeDuplicate(_ name: EntryName) -> Bool {
        guard let created = withSmall({ try $0.created(name) }) else { return false }
        let file = try? EntryFile(opening: directory.file(name), as: name, largestBody: options.largestBody)
        guard let file, file.trailer.created > created else { return discardFile(name) != .failed }
        withSmall { try $0.remove(name) }
        return false
    }

    private func adopt(_ name: EntryName) {
        if removeDuplicate(name) { return }
        // The entry may have been found and added since.
        if withIndex({ try $0.size(of: name) }) != nil { return }
        do throws(EntryProblem) {
            let entry = try EntryFile(opening: directory.file(name), as: name, largestBody: options.largestBody)
            if forgotten.contains(entry.trailer) {
                discard(name)
            } else if let order = orderToClear(entry, name) {
                clear(name, size: entry.size, forOrder: order)
            } else {
                add(entry.trailer, name, size: entry.size, used: entry.modified)
            }
        } catch {
            switch error {
            case .damaged, .outdated: discard(name)
            case .absent, .system: break
            }
        }
    }
}
