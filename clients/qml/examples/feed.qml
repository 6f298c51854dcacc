// A feed of images: /usr/lib/qt6/bin/qml feed.qml -- URL|FILE...
import QtQuick
import QtQuick.Window
import Imgbroker

Window {
    width: 480; height: 640; visible: true; title: "Feed"; color: "#f2f3f5"

    ListView {
        id: feed
        anchors { fill: parent; margins: 12 }
        spacing: 12
        reuseItems: true
        model: Qt.application.arguments.slice(Qt.application.arguments.indexOf("--") + 1)

        delegate: Rectangle {
            id: row
            required property string modelData
            property alias image: image
            width: ListView.view.width; height: 232; radius: 8; color: "white"; border.color: "#dfe1e6"

            Rectangle {   // behind the image: its placeholder, and the place of an error
                anchors.fill: image
                radius: 6
                color: image.status === BrokerImage.Error ? "#fbeae8" : "#e8eaee"
            }
            BrokerImage {
                id: image
                x: 8; y: 8; width: parent.width - 16; height: 176
                fillMode: BrokerImage.PreserveAspectCrop
                steps: "round:radius=" + Math.round(6 * Screen.devicePixelRatio)
                source: row.modelData
            }
            Text {
                anchors { fill: image; margins: 24 }
                visible: image.status === BrokerImage.Error
                text: image.errorString + "\nClick to try again."
                color: "#9c2b22"; wrapMode: Text.Wrap; font.pixelSize: 14
                horizontalAlignment: Text.AlignHCenter; verticalAlignment: Text.AlignVCenter
            }
            Rectangle {
                anchors { left: image.left; bottom: image.bottom }
                visible: image.status === BrokerImage.Loading
                width: image.width * image.progress; height: 3; color: "#3565c8"
            }
            Text {
                anchors { left: parent.left; right: parent.right; bottom: parent.bottom; margins: 16 }
                text: row.modelData.split("/").pop()
                color: "#23252c"; elide: Text.ElideMiddle; font.pixelSize: 15
            }
            TapHandler { onTapped: image.retry() }
        }
    }
}
