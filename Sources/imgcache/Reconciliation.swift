import LinuxSystem

/// Reconciles the index with the files after a start. Files that are not in the index are added, rows without a file are
/// removed, and rows whose file has another size are replaced (the process was killed after it had replaced the file and
/// before it committed). Half-written files are removed. It goes through the subdirectories in order of their names, a
/// few entries at a time.
struct Reconciliation {
    /// An entry of the present subdirectory that remains to be examined.
    fileprivate enum Item {
        case unknownFile(String)
        case missingFile(EntryName)
        case knownFile(EntryName)
    }

    fileprivate var kinds: [EntryKind] = []
    fileprivate var hasBegun = false
    /// The subdirectories of the present kind that remain, in descending order.
    fileprivate var prefixes: [String] = []
    /// File names below this one are done.
    fileprivate var lowest = ""
    fileprivate var kind = EntryKind.originals
    fileprivate var items: [Item] = []
}

extension Store {
    /// Continues the reconciliation until `deadline` or its end.
    func reconcile(until deadline: Instant) {
        while var state = reconciliation, Instant.now < deadline {
            // A step may lose the index, which starts another reconciliation.
            reconciliation = nil
            let isDone = step(&state)
            if reconciliation != nil || index == nil { continue }
            if isDone {
                forgotten.removeCarriedOut()
                for kind in EntryKind.allCases { noteSize(of: kind) }
                nextAgeCheck = .now
            } else {
                reconciliation = state
            }
        }
    }

    private func step(_ state: inout Reconciliation) -> Bool {
        if let item = state.items.popLast() {
            handle(item, state.kind)
        } else if !state.hasBegun {
            state.hasBegun = true
            state.kinds = EntryKind.allCases.reversed()
            if obstacle == nil { try? directory.removeTemporaries() }
            begin(&state)
        } else if let prefix = nextPrefix(&state) {
            compare(prefix, &state)
        } else {
            state.kinds.removeLast()
            if state.kinds.isEmpty { return true }
            begin(&state)
        }
        return false
    }

    private func begin(_ state: inout Reconciliation) {
        guard let kind = state.kinds.last else { return }
        state.kind = kind
        state.lowest = ""
        let names = (try? FileSystem.names(in: directory.directory(of: kind))) ?? []
        state.prefixes = names.filter { $0.utf8.count == 2 && EntryName(kind: kind, word: $0) != nil }.sorted(by: >)
    }

    /// The next subdirectory that exists, or that the index has rows for.
    private func nextPrefix(_ state: inout Reconciliation) -> String? {
        let (kind, lowest) = (state.kind, state.lowest)
        let word = withIndex { (index) throws(SQLiteError) in try index.firstWord(kind, from: lowest) } ?? nil
        let known = word.map { String($0.prefix(2)) }
        if let listed = state.prefixes.last, known.map({ listed <= $0 }) ?? true {
            state.prefixes.removeLast()
            state.lowest = listed + "\u{7F}"
            return listed
        }
        if let known { state.lowest = known + "\u{7F}" }
        return known
    }

    private func compare(_ prefix: String, _ state: inout Reconciliation) {
        let kind = state.kind
        let rows = withIndex { (index) throws(SQLiteError) in try index.words(kind, prefix: prefix) } ?? []
        let files = (try? FileSystem.names(in: directory.directory(of: kind, prefix: prefix))) ?? []
        let (known, existing) = (Set(rows), Set(files))
        state.items = files.filter { !known.contains($0) }.map { .unknownFile("\(prefix)/\($0)") }
        state.items += rows.compactMap { word in
            EntryName(kind: kind, word: word).map { existing.contains(word) ? .knownFile($0) : .missingFile($0) }
        }
    }

    private func handle(_ item: Reconciliation.Item, _ kind: EntryKind) {
        switch item {
        case .missingFile(let name):
            // The entry may have been stored again since.
            do throws(SystemError) {
                if try FileSystem.status(of: directory.file(name)) == nil { dropRow(name) }
            } catch  where error.isMissingPath {
                dropRow(name)
            } catch {}
        case .knownFile(let name):
            let known = withIndex { (index) throws(SQLiteError) in try index.size(of: name) } ?? nil
            guard let known, let status = try? FileSystem.status(of: directory.file(name)), status.size != known
            else { return }
            dropRow(name)
            adopt(name)
        case .unknownFile(let relative):
            let word = String(relative.dropFirst(3))
            guard let name = EntryName(kind: kind, word: word), relative.hasPrefix(name.prefix + "/") else {
                // The file has no entry's name: it can never be found, and its size is not counted.
                try? FileDescriptor.remove("\(directory.directory(of: kind))/\(relative)")
                return
            }
            adopt(name)
        }
    }

    private func dropRow(_ name: EntryName) {
        withIndex { (index) throws(SQLiteError) in try index.remove(name) }
    }

    private func adopt(_ name: EntryName) {
        // The entry may have been found and added since.
        let known = withIndex { (index) throws(SQLiteError) in try index.size(of: name) } ?? nil
        if known != nil { return }
        do throws(EntryProblem) {
            let entry = try EntryFile(
                opening: directory.file(name), as: name, largestBody: options.largestBody)
            if forgotten.contains(entry.trailer) {
                discard(name)
            } else if let order = orderToClear(entry, name) {
                clear(name, size: entry.status.size, forOrder: order)
            } else {
                add(entry.trailer, name, size: entry.status.size, used: entry.status.modified)
            }
        } catch {
            switch error {
            case .damaged, .outdated: discard(name)
            case .absent, .system: break
            }
        }
    }
}
