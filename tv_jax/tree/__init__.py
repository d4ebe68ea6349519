"""Draft trees: known when a program is compiled, or shaped while drafted."""

from tv_jax.tree.adaptive import Adaptive as Adaptive
from tv_jax.tree.adaptive import placed as placed
from tv_jax.tree.naming import parse as parse
from tv_jax.tree.naming import resolve as resolve
from tv_jax.tree.shapes import EAGLE_SPARSE as EAGLE_SPARSE
from tv_jax.tree.shapes import branching as branching
from tv_jax.tree.shapes import chain as chain
from tv_jax.tree.shapes import from_parents as from_parents
from tv_jax.tree.shapes import from_paths as from_paths
from tv_jax.tree.shapes import grown as grown
from tv_jax.tree.shapes import kary as kary
from tv_jax.tree.static import NO_CHILD as NO_CHILD
from tv_jax.tree.static import NO_PARENT as NO_PARENT
from tv_jax.tree.static import ROOT as ROOT
from tv_jax.tree.static import Topology as Topology
from tv_jax.tree.static import Tree as Tree
from tv_jax.tree.static import check_size as check_size
