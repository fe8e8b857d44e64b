#!/usr/bin/python3
"""A worker as one would write it in Python: answers each payload with itself, and what came together together."""

import os


def main():
    received = b""
    while piece := os.read(0, 1 << 16):
        received += piece
        at = 0
        answers = []
        while True:
            # *3, $size, payload, $size, index, $size, batch: the first and the last are all that is looked at.
            head = received.find(b"\r\n", at + 4)
            if head < 0:
                break
            begin = head + 2
            end = begin + int(received[at + 5 : head])
            index = received.find(b"\r\n", end + 2)
            if index < 0:
                break
            batch = index + 2 + int(received[end + 3 : index]) + 2
            name = received.find(b"\r\n", batch)
            if name < 0 or len(received) < (after := name + 2 + int(received[batch + 1 : name]) + 2):
                break
            answers.append(b"$%d\r\n%b\r\n" % (end - begin, received[begin:end]))
            at = after
        received = received[at:]
        data = b"".join(answers)
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
