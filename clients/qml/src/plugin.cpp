#include <QQmlEngine>
#include <QQmlEngineExtensionPlugin>

#include "imageprovider.h"

extern void qml_register_types_Imgbroker();
Q_GHS_KEEP_REFERENCE(qml_register_types_Imgbroker)

/// The plugin of the module: registers its types, and the provider of image://imgbroker with each engine.
class ImgbrokerPlugin : public QQmlEngineExtensionPlugin {
    Q_OBJECT
    Q_PLUGIN_METADATA(IID QQmlEngineExtensionInterface_iid)

public:
    explicit ImgbrokerPlugin(QObject *parent = nullptr) : QQmlEngineExtensionPlugin(parent) {
        volatile auto registration = &qml_register_types_Imgbroker;
        Q_UNUSED(registration);
    }

    void initializeEngine(QQmlEngine *engine, const char *) override {
        engine->addImageProvider(QStringLiteral("imgbroker"), new ImageProvider);
    }
};

#include "plugin.moc"
