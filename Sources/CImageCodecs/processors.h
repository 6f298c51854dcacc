// Inner loops for the processor that is there.
#ifndef PROCESSORS_H
#define PROCESSORS_H

/// Distributions build for the oldest processor of the family. With clones the loader picks what this one can do; not with
/// the thread sanitizer, whose calls it would make before there is one.
#if defined(__x86_64__) && defined(__has_attribute) && defined(__has_feature)
#if __has_attribute(target_clones) && !__has_feature(thread_sanitizer)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
#endif
#ifndef FOR_EACH_PROCESSOR
#define FOR_EACH_PROCESSOR
#endif

#endif
