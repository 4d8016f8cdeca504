"""Classical obfuscation: fewer pixels, blur, black boxes. Nothing is learnt; a detector of your choice finds people.

    obfuscator = Obfuscator("blacken", YoloOnnx("yolov5x.onnx"), fail_closed=True)

`Downsampler` and `WholeBlur` change the whole picture and need no detector.
"""

from videoveil.anonymizers.obfuscate.anonymizer import METHODS, Method, Obfuscator, Painter
from videoveil.anonymizers.obfuscate.blacken import Blacken
from videoveil.anonymizers.obfuscate.blur import STRONG, WEAK, Blur
from videoveil.anonymizers.obfuscate.cache import BoxCache, VideoBoxes, search, search_frames
from videoveil.anonymizers.obfuscate.detectors import CenterFace, Detector, Fixed, Hog, YuNet
from videoveil.anonymizers.obfuscate.layered import Layered
from videoveil.anonymizers.obfuscate.paint import BoxPainter
from videoveil.anonymizers.obfuscate.report import ObfuscationReport
from videoveil.anonymizers.obfuscate.tracking import Followed, Tracker, Tracking, fill_gaps
from videoveil.anonymizers.obfuscate.whole import Downsampler, WholeBlur
from videoveil.anonymizers.obfuscate.yolo import YoloOnnx

__all__ = [
    "METHODS",
    "STRONG",
    "WEAK",
    "Blacken",
    "Blur",
    "BoxCache",
    "BoxPainter",
    "CenterFace",
    "Detector",
    "Downsampler",
    "Fixed",
    "Followed",
    "Hog",
    "Layered",
    "Method",
    "ObfuscationReport",
    "Obfuscator",
    "Painter",
    "Tracker",
    "Tracking",
    "VideoBoxes",
    "WholeBlur",
    "YoloOnnx",
    "YuNet",
    "fill_gaps",
    "search",
    "search_frames",
]
