import QtQuick

ListView {
    id: list

    // Whether a row has shown its image, and the number of these rows.
    property var wasShown: ({})
    property int shown: 0

    // Returns whether all visible rows show their image, and notes those that do.
    function isComplete() {
        const first = indexAt(1, contentY + 1), last = indexAt(1, contentY + height - 1);
        let missing = first < 0 || last < 0;
        for (let index = first; index >= 0 && index <= last; index++) {
            if (!itemAtIndex(index)?.isReady) {
                missing = true;
            } else if (!wasShown[index]) {
                wasShown[index] = true;
                shown++;
            }
        }
        return !missing;
    }

    model: rows
    delegate: Row {
        required property int index
        readonly property bool isReady: image.status === Image.Ready
        readonly property string path: folder + "/" + index

        spacing: 12

        Image {
            id: image
            width: 160
            height: 120
            asynchronous: true
            fillMode: Image.PreserveAspectFit
            source: "file://" + parent.path
            sourceSize: Qt.size(width * Screen.devicePixelRatio, height * Screen.devicePixelRatio)
        }
        Text {
            anchors.verticalCenter: parent.verticalCenter
            text: parent.path
        }
    }
}
