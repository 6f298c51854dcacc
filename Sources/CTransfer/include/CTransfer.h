#ifndef CTRANSFER_H
#define CTRANSFER_H
#endif
