#ifndef IMGBROKER_QML_IMAGEPROVIDER_H
#define IMGBROKER_QML_IMAGEPROVIDER_H

#include <QQuickAsyncImageProvider>

/// Serves `image://imgbroker/URL` to Image: the URL as it is, the URL encoded by encodeURIComponent, or the path of a local file.
/// `sourceSize` of the Image is the box in pixels within which the broker scales; images are never enlarged.
class ImageProvider : public QQuickAsyncImageProvider {
public:
    QQuickImageResponse *requestImageResponse(const QString &id, const QSize &requestedSize) override;
};

#endif
