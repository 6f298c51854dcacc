// A body that is no image must not replace a good one, so the old original is kept until the first decoding of the new
// bytes has ended. Requests that come meanwhile find the new ones.
extension BrokerState {
    /// Puts new bytes on trial before their original is inserted, if they may replace an image. Returns whether.
    mutating func beginTrial(_ replacement: Replacement, of download: Download) -> Bool {
        let content = replacement.original.content
        // Anything else was looked up before it was downloaded, and was not there.
        let mayReplace = download.revalidating != nil || download.key.isForced || replacement.known != nil
        guard mayReplace, replacement.staysInMemory || !replacement.entersDisk,
            trials[content] != nil || memory.header(of: content) == nil
        else { return false }
        if var earlier = trials[content]?[replacement.key], earlier.staysInMemory || !replacement.staysInMemory {
            earlier.original = replacement.original
            earlier.entersDisk = earlier.entersDisk || replacement.entersDisk
            trials[content]?[replacement.key] = earlier
            return true
        }
        if replacement.known?.content == content { return false }
        var trial = replacement
        if replacement.staysInMemory, let known = memory.original(replacement.key), known.content != content {
            // What is on trial itself is no image yet.
            let trialOfKnown = trials[known.content]?[replacement.key]
            trial.previous = trialOfKnown == nil ? known : trialOfKnown?.previous
            if let previous = trial.previous { dropRemoved(memory.insert(previous, for: trial.refuge)) }
        }
        trials[content, default: [:]][replacement.key] = trial
        return true
    }

    /// Lets new bytes that are an image replace the old original for good.
    mutating func acceptTrial(of content: ContentKey) {
        for replacement in endTrial(of: content) {
            dropRemoved(memory.remove(replacement.refuge))
            // It may have been removed or replaced meanwhile.
            let isCurrent = memory.original(replacement.key)?.content == content
            if replacement.staysInMemory, !isCurrent { continue }
            forgetReplaced(replacement)
            if replacement.entersDisk, let body = body(of: replacement.original) {
                save(body, as: replacement.key, replacement.original)
                share(replacement.original, as: replacement.key, body, for: replacement.user, ending: nil)
            }
        }
    }

    /// Takes out what bytes on trial may replace, by the jobs that loaded them.
    private mutating func endTrial(of content: ContentKey) -> [Replacement] {
        trials.removeValue(forKey: content)?.values.sorted { $0.job < $1.job } ?? []
    }

    /// Puts the old originals back in place of bytes that are no image. Returns the keys for which they were on trial.
    @discardableResult mutating func rejectTrial(of content: ContentKey) -> Set<OriginalKey> {
        let ended = endTrial(of: content)
        for trial in ended {
            let key = trial.key
            if memory.original(key)?.content == content {
                // It is not in its refuge if it was discarded meanwhile.
                if let previous = trial.previous, memory.original(trial.refuge) != nil {
                    dropRemoved(memory.insert(previous, for: key))
                } else {
                    dropRemoved(memory.remove(key))
                }
            }
            dropRemoved(memory.remove(trial.refuge))
        }
        return Set(ended.map(\.key))
    }

    /// Ends the trial of bytes that no job decodes any more: they are not known to be an image.
    mutating func endTrialWithoutJob(of content: ContentKey) {
        if trials[content] != nil, !decoding.isDecoding(content) { rejectTrial(of: content) }
    }

    mutating func forgetReplaced(_ replacement: Replacement) {
        let content = replacement.original.content
        if !replacement.staysInMemory {
            for key in Set([replacement.key, replacement.requested])
            where memory.original(key).map({ $0.content != content }) ?? false { dropRemoved(memory.remove(key)) }
        }
        // An original that is saved on disk replaces the old one there.
        if !replacement.entersDisk, replacement.known.map({ $0.content != content }) ?? true {
            forgetOnDisk(replacement.key)
        }
    }
}
