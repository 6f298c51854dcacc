import LinuxSystem

CurrentProcess.exit(StartSequence.run(CommandLine.arguments))
