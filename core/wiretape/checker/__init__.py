"""The checker: runs rules over observations.  Its rules are those of contracts, by default of the installed ones."""

from wiretape.checker.checker import Checker as Checker
from wiretape.checker.default_rules import BUILT_IN as BUILT_IN
from wiretape.checker.default_rules import CATALOGUE as CATALOGUE
from wiretape.checker.selection import EVERY as EVERY
from wiretape.checker.selection import Settings as Settings
from wiretape.checker.selection import UnknownCodeError as UnknownCodeError
from wiretape.checker.selection import codes_of as codes_of
from wiretape.checker.selection import family_names as family_names
from wiretape.checker.selection import selected as selected
from wiretape.checker.selection import weight as weight
