#!/usr/bin/env python3
"""The chat page in a real browser: a person types a question, the reply streams into the page."""
import pathlib
import os
import sys
import unittest

from browser import Browser
from weir_server import GOLDEN, HOST, Server

