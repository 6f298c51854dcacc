// The process of the shared tier: it has connections to memcached servers, and neither files nor codec.

import WorkerRuntime

WorkerRuntime.run(TierProgram())
