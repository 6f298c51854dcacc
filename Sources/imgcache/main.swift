import Glibc

exit(StartSequence.run(CommandLine.arguments))
