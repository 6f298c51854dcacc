// The download worker: it has the network, and no codec. The broker orders transfers over the control socket, and hands
// over the descriptors that their bodies go to.

internal import WorkerRuntime

WorkerRuntime.run(FetchProgram())
