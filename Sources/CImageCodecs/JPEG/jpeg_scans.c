#include "jpeg_scans.h"

#include <string.h>

#include "CImageCodecs.h"

#define SOS 0xDA

/// A marker segment, up to the entropy-coded data or the next marker.
typedef struct {
    uint8_t marker;
    /// The first byte of the marker.
    const uint8_t *start;
    /// The first byte after the marker.
    const uint8_t *content;
    /// The content's length, including its length field of 2 bytes; 0 for the end marker and for an incomplete segment.
    size_t length;
} jpeg_segment;

/// Advances past entropy-coded data to the end of the next marker that begins a segment, and returns it; 0 at the
/// end of the data.
static uint8_t next_marker(const uint8_t **next, const uint8_t *end) {
    for (;;) {
        const uint8_t *place = memchr(*next, 0xFF, (size_t)(end - *next));
        while (place && place < end && *place == 0xFF) place++;
        if (!place || place == end) return 0;
        *next = place + 1;
        // Stuffed bytes, restart markers and TEM begin no segment.
        if (*place > 1 && (*place < 0xD0 || *place > 0xD7)) return *place;
    }
}

/// Advances to the end of the next segment; returns 0 at the end of the data.
static int next_segment(const uint8_t **next, const uint8_t *end, jpeg_segment *segment) {
    segment->marker = next_marker(next, end);
    if (!segment->marker) return 0;
    segment->content = *next;
    segment->start = *next - 2;
    segment->length = 0;
    if (segment->marker == JPEG_EOI || end - *next < 2) return 1;
    size_t length = (size_t)(*next)[0] << 8 | (*next)[1];
    if (length < 2 || length > (size_t)(end - *next)) return 1;
    segment->length = length;
    *next += length;
    return 1;
}

/// Returns the index of the component with `identifier`; -1 if no component has it.
static int component_index(const struct jpeg_decompress_struct *jpeg, uint8_t identifier) {
    for (int i = 0; i < jpeg->num_components && i < MAX_COMPONENTS; i++) {
        if (jpeg->comp_info[i].component_id == identifier) return i;
    }
    return -1;
}

uint64_t jpeg_component_blocks(const jpeg_component_info *component) {
    uint64_t h = (uint64_t)component->h_samp_factor, v = (uint64_t)component->v_samp_factor;
    return (component->width_in_blocks + h - 1) / h * h * ((component->height_in_blocks + v - 1) / v * v);
}

int jpeg_has_too_many_scans(const struct jpeg_decompress_struct *jpeg) {
    if (!jpeg_has_multiple_scans((j_decompress_ptr)jpeg)) return 0;
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->comps_in_scan; i++) blocks += jpeg_component_blocks(jpeg->cur_comp_info[i]);
    unsigned scans = 1;
    const uint8_t *next = jpeg->src->next_input_byte, *end = next + jpeg->src->bytes_in_buffer;
    jpeg_segment segment;
    while (scans <= CODEC_MAXIMUM_SCANS && blocks <= CODEC_MAXIMUM_SCANNED_BLOCKS) {
        if (!next_segment(&next, end, &segment) || segment.length == 0) return 0;
        if (segment.marker != SOS || segment.length < 3) continue;
        scans++;
        for (size_t i = 0; i < segment.content[2] && 4 + 2 * i < segment.length; i++) {
            int component = component_index(jpeg, segment.content[3 + 2 * i]);
            if (component >= 0) blocks += jpeg_component_blocks(&jpeg->comp_info[component]);
        }
    }
    return 1;
}

size_t jpeg_complete_scans(const struct jpeg_decompress_struct *jpeg, uint32_t *scans) {
    const uint8_t *start = jpeg->src->next_input_byte, *next = start, *complete = start;
    const uint8_t *end = start + jpeg->src->bytes_in_buffer;
    int in_scan = 1;
    *scans = 0;
    // A scan has no length field: it ends where the next segment begins.
    for (jpeg_segment segment; next_segment(&next, end, &segment);) {
        if (in_scan) {
            ++*scans;
            complete = segment.start;
        }
        if (segment.length == 0) break;
        in_scan = segment.marker == SOS;
    }
    return (size_t)(complete - start);
}

/// A scan's contents: coefficients `first` to `last` of its components (Ss, Se), and their bits from below `high` (Ah;
/// 0 for all upper bits) down to `low` (Al).
typedef struct {
    int count;
    int components[MAX_COMPS_IN_SCAN];
    int first, last, high, low;
} jpeg_scan;

static int read_scan(const struct jpeg_decompress_struct *jpeg, const jpeg_segment *segment, jpeg_scan *scan) {
    const uint8_t *content = segment->content;
    if (segment->length < 3 || content[2] < 1 || content[2] > MAX_COMPS_IN_SCAN) return 0;
    scan->count = content[2];
    if (segment->length != 6 + 2 * (size_t)scan->count) return 0;
    for (int i = 0; i < scan->count; i++) {
        scan->components[i] = component_index(jpeg, content[3 + 2 * i]);
        if (scan->components[i] < 0) return 0;
    }
    const uint8_t *numbers = content + 3 + 2 * scan->count;
    scan->first = numbers[0];
    scan->last = numbers[1];
    scan->high = numbers[2] >> 4;
    scan->low = numbers[2] & 15;
    return 1;
}

/// Returns whether a component is decoded to one sample per block.
static int is_one_sample(const jpeg_component_info *component) {
#if JPEG_LIB_VERSION >= 70
    return component->DCT_h_scaled_size == 1 && component->DCT_v_scaled_size == 1;
#else
    return component->DCT_scaled_size == 1;
#endif
}

/// The lowest bit known so far, by component and coefficient; -1 for none.
typedef int8_t known_bits[MAX_COMPONENTS][DCTSIZE2];

/// Records the bits of `scan`; returns 0 if they do not continue the known ones.
static int record(const jpeg_scan *scan, known_bits known) {
    if (scan->last >= DCTSIZE2 || scan->first > scan->last || (scan->first == 0) != (scan->last == 0)) return 0;
    if (scan->first > 0 && scan->count != 1) return 0;
    if (scan->high != 0 && scan->low != scan->high - 1) return 0;
    for (int i = 0; i < scan->count; i++) {
        int8_t *bits = known[scan->components[i]];
        if (scan->first > 0 && bits[0] < 0) return 0;
        for (int k = scan->first; k <= scan->last; k++) {
            if (bits[k] != (scan->high == 0 ? -1 : scan->high)) return 0;
            bits[k] = (int8_t)scan->low;
        }
    }
    return 1;
}

int jpeg_can_skip_scans(const struct jpeg_decompress_struct *jpeg) {
    int skippable = 0;
    for (int i = 0; i < jpeg->num_components; i++) skippable |= is_one_sample(&jpeg->comp_info[i]);
    if (!jpeg->progressive_mode || !skippable || jpeg->num_components > MAX_COMPONENTS) return 0;
    known_bits known;
    memset(known, -1, sizeof known);
    // The scan whose header libjpeg has just read.
    jpeg_scan scan = {.first = jpeg->Ss, .last = jpeg->Se, .high = jpeg->Ah, .low = jpeg->Al};
    for (int i = 0; i < jpeg->comps_in_scan && i < MAX_COMPS_IN_SCAN; i++) {
        scan.components[scan.count++] = jpeg->cur_comp_info[i]->component_index;
    }
    if (!record(&scan, known)) return 0;
    const uint8_t *next = jpeg->src->next_input_byte, *end = next + jpeg->src->bytes_in_buffer;
    for (jpeg_segment segment;;) {
        if (!next_segment(&next, end, &segment)) return 0;
        if (segment.marker == JPEG_EOI) break;
        if (segment.length == 0) return 0;
        if (segment.marker == SOS && (!read_scan(jpeg, &segment, &scan) || !record(&scan, known))) return 0;
    }
    for (int i = 0; i < jpeg->num_components; i++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            if (known[i][k] != 0) return 0;
        }
    }
    return 1;
}

/// Returns whether `segment` begins a scan that does not affect the rows. Scans of AC coefficients have one component.
static int begins_skippable(const struct jpeg_decompress_struct *jpeg, const jpeg_segment *segment) {
    jpeg_scan scan;
    return segment->marker == SOS && read_scan(jpeg, segment, &scan) && scan.first > 0 && scan.count == 1 &&
        is_one_sample(&jpeg->comp_info[scan.components[0]]);
}

size_t jpeg_count_until_skipped(const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end) {
    const uint8_t *next = start;
    for (jpeg_segment segment; next_segment(&next, end, &segment) && segment.length > 0;) {
        if (begins_skippable(jpeg, &segment)) return (size_t)(segment.start - start);
    }
    return (size_t)(end - start);
}

const uint8_t *jpeg_skip_scans(const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end) {
    const uint8_t *next = start;
    for (jpeg_segment segment; next_segment(&next, end, &segment);) {
        if (!begins_skippable(jpeg, &segment)) return segment.start;
    }
    return end;
}
