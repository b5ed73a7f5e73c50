"""How parts of loops are compiled: only as far as their callers need, because machine code is made of whole loops."""

from __future__ import annotations

from typing import Any

from numba.core import codegen, compiler, compiler_machinery, typed_passes

register: Any = compiler_machinery.register_pass  # numba has no types
Library: Any = codegen.JITCodeLibrary
Lowering: Any = typed_passes.NativeLowering
Compiler: Any = compiler.CompilerBase
Usual: Any = compiler.DefaultPassBuilder


class _Part(Library):  # type: ignore[misc]
    """Code that is linked into its callers and optimised there; nobody runs it by itself."""

    def _optimize_final_module(self) -> None:
        """Its callers do that."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register(mutates_CFG=True, analysis_only=False)
class _LowerPart(Lowering):  # type: ignore[misc]
    """What numba does to write LLVM's language, without turning that into machine code."""

    _name = "kinrank_lower_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        Lowering.run_pass(self, state)
        never: Any = {}.__getitem__  # numba asks for a built-in function, another one each time: this one only raises
        state.targetctx.insert_user_function(never, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=never)
        return True


class PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler with another last step."""

    def define_pipelines(self) -> list[Any]:
        manager = Usual.define_nopython_pipeline(self.state)
        manager.passes = [(_LowerPart if step is Lowering else step, label) for step, label in manager.passes]
        manager.finalize()
        return [manager]
