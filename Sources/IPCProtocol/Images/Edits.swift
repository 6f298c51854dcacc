import JSONCoding

/// The crop, the steps and the position of a variant or transform: at least one of them. A reference, because most
/// requests have none and are copied often.
package final class Edits: Hashable, Sendable {
    /// The part of the source to use; nil for all of it.
    package let crop: Crop?
    /// The steps that follow scaling, in order.
    package let steps: [Step]
    /// The part that `cover` keeps, and the place of the image on a `pad` step's canvas; nil for the middle.
    package let position: Position?

    /// Creates edits; nil for none.
    package init?(crop: Crop?, steps: [Step], position: Position? = nil) {
        if crop == nil, steps.isEmpty, position == nil { return nil }
        (self.crop, self.steps, self.position) = (crop, steps, position)
    }

    /// Whether a step pads, so that a focal point has an effect.
    var pads: Bool { steps.contains { $0.operation == .pad } }

    /// Returns the same without steps that have no effect, and without a position that has none; nil if nothing
    /// remains. `covers`: whether the image is fitted by `cover` into a box of two sides.
    func canonical(covers: Bool) -> Edits? {
        guard steps.allSatisfy(\.hasEffect), position == nil else {
            let edits = Edits(crop: crop, steps: steps.filter(\.hasEffect))
            guard let position, position != .center, covers || edits?.pads == true && position.focus != nil else {
                return edits
            }
            return Edits(crop: crop, steps: edits?.steps ?? [], position: position)
        }
        return self
    }

    package static func == (left: Edits, right: Edits) -> Bool {
        left === right || left.crop == right.crop && left.steps == right.steps && left.position == right.position
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(crop)
        hasher.combine(steps)
        hasher.combine(position)
    }

    /// The edits as one word. Equal edits have equal words.
    var word: String {
        (crop.map { "-crop-\($0.x)-\($0.y)-\($0.width)x\($0.height)" } ?? "")
            + (steps.isEmpty ? "" : "-steps-" + steps.map(\.canonical).joined(separator: "-"))
            + (position.map { "-position-\($0.word)" } ?? "")
    }
}

extension Fields {
    /// The members `crop`, `steps` and `position`.
    mutating func edits(_ value: inout Edits?) {
        guard isReading ? has("crop") || has("steps") || has("position") : value != nil else { return }
        var (crop, steps, place) = (value?.crop, value?.steps ?? [], value?.position)
        object("crop", &crop)
        objects("steps", orNone: &steps, most: Step.most, isNumbered: true)
        position(&place)
        if isReading { value = Edits(crop: crop, steps: steps, position: place) }
    }
}
