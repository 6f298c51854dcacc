// The decode worker of AVIF, still images and sequences, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.avif.main()
