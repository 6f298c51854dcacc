// The decode worker of HEIC, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.heif.main()
