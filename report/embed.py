#!/usr/bin/env python3
"""Makes the page of the HTML report and writes it as arrays of C.

usage: embed.py --modules DIR --html DIR --out FILE.c

Bundles the scripts with esbuild from DIR/node_modules, puts them and the style
into the template, and allows in its Content-Security-Policy just these two, by
their hashes.  The page is cut where its data goes.
"""
import argparse
import base64
import hashlib
import os
import subprocess
import sys

MOST_BYTES = 400 * 1024
LIBRARIES = ("preact", "htm", "uplot")
NAMES = ("tideR_page_head", "tideR_page_tail")


def bundle(options, entry, *more):
    esbuild = os.path.join(options.modules, "node_modules", "esbuild", "bin",
                           "esbuild")
    env = dict(os.environ,
               NODE_PATH=os.path.join(options.modules, "node_modules"))
    done = subprocess.run(
        [options.node, esbuild, os.path.join(options.html, entry), "--bundle",
         "--minify", "--legal-comments=inline", "--log-level=warning",
         "--charset=utf8", *more],
        env=env, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("embed.py: esbuild failed")
    return done.stdout.decode().strip()


def policy(script, style):
    def hashed(text):
        digest = hashlib.sha256(text.encode()).digest()
        return "'sha256-%s'" % base64.b64encode(digest).decode()
    return ("default-src 'none'; script-src %s; style-src %s; img-src data:; "
            "base-uri 'none'; form-action 'none'" % (
                hashed(script), hashed(style)))


def licences(options):
    """What the authors of the libraries ask to be kept with them."""
    parts = []
    for name in LIBRARIES:
        path = os.path.join(options.modules, "node_modules", name, "LICENSE")
        with open(path, encoding="utf-8") as file:
            parts.append("%s\n\n%s" % (name, file.read().strip()))
    text = "\n\n\n".join(parts)
    if "<" + "/script" in text:
        sys.exit("embed.py: a licence would end its element")
    return text


def make_page(options):
    script = bundle(options, "view.js", "--format=iife", "--target=es2020")
    uplot = bundle(options, "plot.css")
    with open(os.path.join(options.html, "template.html")) as file:
        page = file.read()
    # in this order: what comes in is not looked at again
    head, tail = page.split("@DATA@")
    head = head.replace("@CSP@", policy(script, uplot))
    head = head.replace("@CSS@", uplot)
    tail = tail.replace("@LICENCES@", licences(options))
    return head, tail.replace("@JS@", script)


def write_array(file, name, data):
    file.write("const unsigned char %s[] = {" % name)
    for i, byte in enumerate(data):
        file.write("%s%d," % ("\n" if i % 20 == 0 else "", byte))
    file.write("\n};\nconst size_t %s_bytes = sizeof %s;\n" % (name, name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", default="node")
    parser.add_argument("--modules", required=True)
    parser.add_argument("--html", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    parts = [part.encode() for part in make_page(options)]
    total = sum(map(len, parts))
    if total > MOST_BYTES:
        sys.exit("embed.py: the page has %d bytes, %d are allowed" % (
            total, MOST_BYTES))
    with open(options.out, "w") as file:
        file.write('/* Made by embed.py; page_impl.h declares it. */\n'
                   '#include <stddef.h>\n')
        for name, part in zip(NAMES, parts):
            write_array(file, name, part)


if __name__ == "__main__":
    main()
