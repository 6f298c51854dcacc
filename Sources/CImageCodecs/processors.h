// Compiling inner loops for several processor generations.
#ifndef PROCESSORS_H
#define PROCESSORS_H

/// Compiles a function for x86-64-v3 as well, and lets the loader choose at run time, because distributions build for
/// the oldest processors. Not with the thread sanitizer, whose functions the loader would call before it is
/// initialized.
#if defined(__x86_64__) && defined(__has_attribute) && defined(__has_feature)
#if __has_attribute(target_clones) && !__has_feature(thread_sanitizer)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
#endif
#ifndef FOR_EACH_PROCESSOR
#define FOR_EACH_PROCESSOR
#endif

#endif
