// The cache process: it has the cache directory, and neither network nor codec.

import WorkerRuntime

WorkerRuntime.run(CacheProgram())
