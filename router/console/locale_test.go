package console

import ()
