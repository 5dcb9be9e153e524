"""CoVeR: chain of verification and refinement. A model generates, the cascade judges, and what
the compiler and the comparison said goes into the next request."""
