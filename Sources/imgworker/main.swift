// The decode worker of JPEG, PNG, WebP and GIF: it has codecs, and no network. The broker hands it one descriptor to
// read and one to write for each job.

import ImageDecoding

DecodeProgram.plain.main()
