import JSONCoding

/// The crop and the steps of a variant or transform: at least one of them. A reference, because most requests have neither and
/// are copied often.
package final class Edits: Hashable, Sendable {
    /// The part of the source to use; nil for all of it.
    package let crop: Crop?
    /// The steps that follow scaling, in order.
    package let steps: [Step]

    /// Creates edits; nil for none.
    package init?(crop: Crop?, steps: [Step]) {
        if crop == nil, steps.isEmpty { return nil }
        (self.crop, self.steps) = (crop, steps)
    }

    /// The same without steps that have no effect; nil if nothing remains.
    package var canonical: Edits? {
        steps.allSatisfy(\.hasEffect) ? self : Edits(crop: crop, steps: steps.filter(\.hasEffect))
    }

    package static func == (left: Edits, right: Edits) -> Bool {
        left === right || left.crop == right.crop && left.steps == right.steps
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(crop)
        hasher.combine(steps)
    }

    /// The edits as one word. Equal edits have equal words.
    var word: String {
        (crop.map { "-crop-\($0.x)-\($0.y)-\($0.width)x\($0.height)" } ?? "")
            + (steps.isEmpty ? "" : "-steps-" + steps.map(\.canonical).joined(separator: "-"))
    }
}

extension Fields {
    /// The members `crop` and `steps`.
    mutating func edits(_ value: inout Edits?) {
        guard isReading ? has("crop") || has("steps") : value != nil else { return }
        var (crop, steps) = (value?.crop, value?.steps ?? [])
        object("crop", &crop)
        objects("steps", orNone: &steps, most: Step.most, isNumbered: true)
        if isReading { value = Edits(crop: crop, steps: steps) }
    }
}
