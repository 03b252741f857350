# A Spack recipe: `spack repo create weft-repo`, copy this to weft-repo/packages/weft/package.py, set `git` to where weft's
# sources are, and `spack repo add weft-repo && spack install weft`.
from spack.package import *


class Weft(CMakePackage):
    """RDMA devices in software for unmodified programs: no hardware, no kernel module, no root."""

    git = "file:///usr/src/weft"

    license("BSD-2-Clause")
    version("main", branch="main")

    variant("tests", default=False, description="build the tests")

    depends_on("c", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("sqlite@3.34:")
    depends_on("rdma-core@44:")
    depends_on("cmocka", type="build", when="+tests")
    conflicts("platform=darwin", msg="weft is for Linux")
    requires("target=x86_64:", msg="weft is for x86-64")

    generator("ninja")

    def cmake_args(self):
        return [self.define_from_variant("WEFT_TESTS", "tests")]
