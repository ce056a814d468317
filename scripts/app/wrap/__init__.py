"""The use cases around running a program: plan, place, launch, trace."""
