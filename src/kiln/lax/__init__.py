"""The public `kiln.lax`: one function per operation, defined in `kiln.ops` and `kiln.control`."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.control.branches import cond as cond
from kiln.control.branches import switch as switch
from kiln.control.cond import cond_p as cond_p
from kiln.control.loops.loops import fori_loop as fori_loop
from kiln.control.loops.loops import map as map
from kiln.control.loops.loops import scan as scan
from kiln.control.loops.loops import while_loop as while_loop
from kiln.control.loops.scan import scan_p as scan_p
from kiln.control.loops.while_loop import while_p as while_p
from kiln.lax.mixed import mul as mul
from kiln.ops.collective import axis_index as axis_index
from kiln.ops.collective import axis_index_p as axis_index_p
from kiln.ops.collective import axis_size as axis_size
from kiln.ops.collective import pcast as pcast
from kiln.ops.collective import pmax as pmax
from kiln.ops.collective import pmax_p as pmax_p
from kiln.ops.collective import pmean as pmean
from kiln.ops.collective import pmin as pmin
from kiln.ops.collective import pmin_p as pmin_p
from kiln.ops.collective import psum as psum
from kiln.ops.collective import psum_p as psum_p
from kiln.ops.counting import broadcasted_iota as broadcasted_iota
from kiln.ops.counting import iota as iota
from kiln.ops.counting import iota_p as iota_p
from kiln.ops.elements.conversion import bitcast_convert_type as bitcast_convert_type
from kiln.ops.elements.conversion import bitcast_convert_type_p as bitcast_convert_type_p
from kiln.ops.elements.conversion import complex as complex
from kiln.ops.elements.conversion import complex_p as complex_p
from kiln.ops.elements.conversion import conj as conj
from kiln.ops.elements.conversion import conj_p as conj_p
from kiln.ops.elements.conversion import convert_element_type as convert_element_type
from kiln.ops.elements.conversion import convert_element_type_p as convert_element_type_p
from kiln.ops.elements.conversion import imag as imag
from kiln.ops.elements.conversion import imag_p as imag_p
from kiln.ops.elements.conversion import real as real
from kiln.ops.elements.conversion import real_p as real_p
from kiln.ops.elements.elementwise import abs as abs
from kiln.ops.elements.elementwise import abs_p as abs_p
from kiln.ops.elements.elementwise import add as add
from kiln.ops.elements.elementwise import add_p as add_p
from kiln.ops.elements.elementwise import and_p as and_p
from kiln.ops.elements.elementwise import atan2 as atan2
from kiln.ops.elements.elementwise import atan2_p as atan2_p
from kiln.ops.elements.elementwise import bitwise_and as bitwise_and
from kiln.ops.elements.elementwise import bitwise_not as bitwise_not
from kiln.ops.elements.elementwise import bitwise_or as bitwise_or
from kiln.ops.elements.elementwise import bitwise_xor as bitwise_xor
from kiln.ops.elements.elementwise import cbrt as cbrt
from kiln.ops.elements.elementwise import cbrt_p as cbrt_p
from kiln.ops.elements.elementwise import ceil as ceil
from kiln.ops.elements.elementwise import ceil_p as ceil_p
from kiln.ops.elements.elementwise import clamp as clamp
from kiln.ops.elements.elementwise import clamp_p as clamp_p
from kiln.ops.elements.elementwise import clz as clz
from kiln.ops.elements.elementwise import clz_p as clz_p
from kiln.ops.elements.elementwise import copy_p as copy_p
from kiln.ops.elements.elementwise import cos as cos
from kiln.ops.elements.elementwise import cos_p as cos_p
from kiln.ops.elements.elementwise import cosh as cosh
from kiln.ops.elements.elementwise import cosh_p as cosh_p
from kiln.ops.elements.elementwise import div as div
from kiln.ops.elements.elementwise import div_p as div_p
from kiln.ops.elements.elementwise import eq as eq
from kiln.ops.elements.elementwise import eq_p as eq_p
from kiln.ops.elements.elementwise import exp as exp
from kiln.ops.elements.elementwise import exp2 as exp2
from kiln.ops.elements.elementwise import exp2_p as exp2_p
from kiln.ops.elements.elementwise import exp_p as exp_p
from kiln.ops.elements.elementwise import expm1 as expm1
from kiln.ops.elements.elementwise import expm1_p as expm1_p
from kiln.ops.elements.elementwise import floor as floor
from kiln.ops.elements.elementwise import floor_p as floor_p
from kiln.ops.elements.elementwise import ge as ge
from kiln.ops.elements.elementwise import ge_p as ge_p
from kiln.ops.elements.elementwise import gt as gt
from kiln.ops.elements.elementwise import gt_p as gt_p
from kiln.ops.elements.elementwise import integer_pow as integer_pow
from kiln.ops.elements.elementwise import integer_pow_p as integer_pow_p
from kiln.ops.elements.elementwise import is_finite as is_finite
from kiln.ops.elements.elementwise import is_finite_p as is_finite_p
from kiln.ops.elements.elementwise import le as le
from kiln.ops.elements.elementwise import le_p as le_p
from kiln.ops.elements.elementwise import log as log
from kiln.ops.elements.elementwise import log1p as log1p
from kiln.ops.elements.elementwise import log1p_p as log1p_p
from kiln.ops.elements.elementwise import log_p as log_p
from kiln.ops.elements.elementwise import logistic as logistic
from kiln.ops.elements.elementwise import logistic_p as logistic_p
from kiln.ops.elements.elementwise import lt as lt
from kiln.ops.elements.elementwise import lt_p as lt_p
from kiln.ops.elements.elementwise import max as max
from kiln.ops.elements.elementwise import max_p as max_p
from kiln.ops.elements.elementwise import min as min
from kiln.ops.elements.elementwise import min_p as min_p
from kiln.ops.elements.elementwise import mul_p as mul_p
from kiln.ops.elements.elementwise import ne as ne
from kiln.ops.elements.elementwise import ne_p as ne_p
from kiln.ops.elements.elementwise import neg as neg
from kiln.ops.elements.elementwise import neg_p as neg_p
from kiln.ops.elements.elementwise import nextafter as nextafter
from kiln.ops.elements.elementwise import nextafter_p as nextafter_p
from kiln.ops.elements.elementwise import not_p as not_p
from kiln.ops.elements.elementwise import or_p as or_p
from kiln.ops.elements.elementwise import population_count as population_count
from kiln.ops.elements.elementwise import population_count_p as population_count_p
from kiln.ops.elements.elementwise import pow as pow
from kiln.ops.elements.elementwise import pow_p as pow_p
from kiln.ops.elements.elementwise import reciprocal as reciprocal
from kiln.ops.elements.elementwise import rem as rem
from kiln.ops.elements.elementwise import rem_p as rem_p
from kiln.ops.elements.elementwise import rsqrt as rsqrt
from kiln.ops.elements.elementwise import rsqrt_p as rsqrt_p
from kiln.ops.elements.elementwise import select as select
from kiln.ops.elements.elementwise import select_n as select_n
from kiln.ops.elements.elementwise import select_n_p as select_n_p
from kiln.ops.elements.elementwise import shift_left as shift_left
from kiln.ops.elements.elementwise import shift_left_p as shift_left_p
from kiln.ops.elements.elementwise import shift_right_arithmetic as shift_right_arithmetic
from kiln.ops.elements.elementwise import shift_right_arithmetic_p as shift_right_arithmetic_p
from kiln.ops.elements.elementwise import shift_right_logical as shift_right_logical
from kiln.ops.elements.elementwise import shift_right_logical_p as shift_right_logical_p
from kiln.ops.elements.elementwise import sign as sign
from kiln.ops.elements.elementwise import sign_p as sign_p
from kiln.ops.elements.elementwise import sin as sin
from kiln.ops.elements.elementwise import sin_p as sin_p
from kiln.ops.elements.elementwise import sinh as sinh
from kiln.ops.elements.elementwise import sinh_p as sinh_p
from kiln.ops.elements.elementwise import sqrt as sqrt
from kiln.ops.elements.elementwise import sqrt_p as sqrt_p
from kiln.ops.elements.elementwise import square as square
from kiln.ops.elements.elementwise import square_p as square_p
from kiln.ops.elements.elementwise import stop_gradient_p as stop_gradient_p
from kiln.ops.elements.elementwise import sub as sub
from kiln.ops.elements.elementwise import sub_p as sub_p
from kiln.ops.elements.elementwise import tan as tan
from kiln.ops.elements.elementwise import tan_p as tan_p
from kiln.ops.elements.elementwise import tanh as tanh
from kiln.ops.elements.elementwise import tanh_p as tanh_p
from kiln.ops.elements.elementwise import xor_p as xor_p
from kiln.ops.elements.inverse_functions import acos as acos
from kiln.ops.elements.inverse_functions import acos_p as acos_p
from kiln.ops.elements.inverse_functions import acosh as acosh
from kiln.ops.elements.inverse_functions import acosh_p as acosh_p
from kiln.ops.elements.inverse_functions import asin as asin
from kiln.ops.elements.inverse_functions import asin_p as asin_p
from kiln.ops.elements.inverse_functions import asinh as asinh
from kiln.ops.elements.inverse_functions import asinh_p as asinh_p
from kiln.ops.elements.inverse_functions import atan as atan
from kiln.ops.elements.inverse_functions import atan_p as atan_p
from kiln.ops.elements.inverse_functions import atanh as atanh
from kiln.ops.elements.inverse_functions import atanh_p as atanh_p
from kiln.ops.elements.rounding import RoundingMethod as RoundingMethod
from kiln.ops.elements.rounding import round as round
from kiln.ops.elements.rounding import round_p as round_p
from kiln.ops.elements.special import bessel_i0e as bessel_i0e
from kiln.ops.elements.special import bessel_i0e_p as bessel_i0e_p
from kiln.ops.elements.special import bessel_i1e as bessel_i1e
from kiln.ops.elements.special import bessel_i1e_p as bessel_i1e_p
from kiln.ops.elements.special import digamma as digamma
from kiln.ops.elements.special import digamma_p as digamma_p
from kiln.ops.elements.special import erf as erf
from kiln.ops.elements.special import erf_inv as erf_inv
from kiln.ops.elements.special import erf_inv_p as erf_inv_p
from kiln.ops.elements.special import erf_p as erf_p
from kiln.ops.elements.special import erfc as erfc
from kiln.ops.elements.special import erfc_p as erfc_p
from kiln.ops.elements.special import lgamma as lgamma
from kiln.ops.elements.special import lgamma_p as lgamma_p
from kiln.ops.elements.special import polygamma as polygamma
from kiln.ops.elements.special import polygamma_p as polygamma_p
from kiln.ops.elements.special import zeta as zeta
from kiln.ops.elements.special import zeta_p as zeta_p
from kiln.ops.identity import optimization_barrier as optimization_barrier
from kiln.ops.identity import optimization_barrier_p as optimization_barrier_p
from kiln.ops.identity import stop_gradient as stop_gradient
from kiln.ops.indexing.indexing import GatherDimensionNumbers as GatherDimensionNumbers
from kiln.ops.indexing.indexing import GatherScatterMode as GatherScatterMode
from kiln.ops.indexing.indexing import ScatterDimensionNumbers as ScatterDimensionNumbers
from kiln.ops.indexing.indexing import gather as gather
from kiln.ops.indexing.indexing import gather_p as gather_p
from kiln.ops.indexing.indexing import scatter as scatter
from kiln.ops.indexing.indexing import scatter_add as scatter_add
from kiln.ops.indexing.indexing import scatter_add_p as scatter_add_p
from kiln.ops.indexing.indexing import scatter_max as scatter_max
from kiln.ops.indexing.indexing import scatter_max_p as scatter_max_p
from kiln.ops.indexing.indexing import scatter_min as scatter_min
from kiln.ops.indexing.indexing import scatter_min_p as scatter_min_p
from kiln.ops.indexing.indexing import scatter_mul as scatter_mul
from kiln.ops.indexing.indexing import scatter_mul_p as scatter_mul_p
from kiln.ops.indexing.indexing import scatter_p as scatter_p
from kiln.ops.indexing.indexing import scatter_sub as scatter_sub
from kiln.ops.indexing.slicing import dynamic_index_in_dim as dynamic_index_in_dim
from kiln.ops.indexing.slicing import dynamic_slice as dynamic_slice
from kiln.ops.indexing.slicing import dynamic_slice_in_dim as dynamic_slice_in_dim
from kiln.ops.indexing.slicing import dynamic_slice_p as dynamic_slice_p
from kiln.ops.indexing.slicing import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from kiln.ops.indexing.slicing import dynamic_update_slice as dynamic_update_slice
from kiln.ops.indexing.slicing import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from kiln.ops.indexing.slicing import dynamic_update_slice_p as dynamic_update_slice_p
from kiln.ops.indexing.splitting import split as split
from kiln.ops.indexing.splitting import split_p as split_p
from kiln.ops.indexing.static_slicing import concatenate as concatenate
from kiln.ops.indexing.static_slicing import concatenate_p as concatenate_p
from kiln.ops.indexing.static_slicing import index_in_dim as index_in_dim
from kiln.ops.indexing.static_slicing import pad as pad
from kiln.ops.indexing.static_slicing import pad_p as pad_p
from kiln.ops.indexing.static_slicing import slice as slice
from kiln.ops.indexing.static_slicing import slice_in_dim as slice_in_dim
from kiln.ops.indexing.static_slicing import slice_p as slice_p
from kiln.ops.linear.contraction import DotDimensionNumbers as DotDimensionNumbers
from kiln.ops.linear.contraction import Precision as Precision
from kiln.ops.linear.contraction import batch_matmul as batch_matmul
from kiln.ops.linear.contraction import dot as dot
from kiln.ops.linear.contraction import dot_general as dot_general
from kiln.ops.linear.contraction import dot_general_p as dot_general_p
from kiln.ops.reductions.cumulative import cumlogsumexp as cumlogsumexp
from kiln.ops.reductions.cumulative import cumlogsumexp_p as cumlogsumexp_p
from kiln.ops.reductions.cumulative import cummax as cummax
from kiln.ops.reductions.cumulative import cummax_p as cummax_p
from kiln.ops.reductions.cumulative import cummin as cummin
from kiln.ops.reductions.cumulative import cummin_p as cummin_p
from kiln.ops.reductions.cumulative import cumprod as cumprod
from kiln.ops.reductions.cumulative import cumprod_p as cumprod_p
from kiln.ops.reductions.cumulative import cumsum as cumsum
from kiln.ops.reductions.cumulative import cumsum_p as cumsum_p
from kiln.ops.reductions.product import reduce_prod as reduce_prod
from kiln.ops.reductions.product import reduce_prod_p as reduce_prod_p
from kiln.ops.reductions.reduction import argmax as argmax
from kiln.ops.reductions.reduction import argmax_p as argmax_p
from kiln.ops.reductions.reduction import argmin as argmin
from kiln.ops.reductions.reduction import argmin_p as argmin_p
from kiln.ops.reductions.reduction import reduce_and as reduce_and
from kiln.ops.reductions.reduction import reduce_and_p as reduce_and_p
from kiln.ops.reductions.reduction import reduce_max as reduce_max
from kiln.ops.reductions.reduction import reduce_max_p as reduce_max_p
from kiln.ops.reductions.reduction import reduce_min as reduce_min
from kiln.ops.reductions.reduction import reduce_min_p as reduce_min_p
from kiln.ops.reductions.reduction import reduce_or as reduce_or
from kiln.ops.reductions.reduction import reduce_or_p as reduce_or_p
from kiln.ops.reductions.reduction import reduce_precision as reduce_precision
from kiln.ops.reductions.reduction import reduce_precision_p as reduce_precision_p
from kiln.ops.reductions.reduction import reduce_xor as reduce_xor
from kiln.ops.reductions.reduction import reduce_xor_p as reduce_xor_p
from kiln.ops.reductions.sorting import sort as sort
from kiln.ops.reductions.sorting import sort_key_val as sort_key_val
from kiln.ops.reductions.sorting import sort_p as sort_p
from kiln.ops.reductions.sorting import top_k as top_k
from kiln.ops.reductions.sorting import top_k_p as top_k_p
from kiln.ops.shape import broadcast as broadcast
from kiln.ops.shape import broadcast_in_dim as broadcast_in_dim
from kiln.ops.shape import broadcast_in_dim_p as broadcast_in_dim_p
from kiln.ops.shape import expand_dims as expand_dims
from kiln.ops.shape import reduce_sum_p as reduce_sum_p
from kiln.ops.shape import reshape as reshape
from kiln.ops.shape import reshape_p as reshape_p
from kiln.ops.shape import rev as rev
from kiln.ops.shape import rev_p as rev_p
from kiln.ops.shape import squeeze as squeeze
from kiln.ops.shape import squeeze_p as squeeze_p
from kiln.ops.shape import transpose as transpose
from kiln.ops.shape import transpose_p as transpose_p
from kiln.ops.sharding import sharding_constraint_p as sharding_constraint_p
from kiln.ops.sharding import with_sharding_constraint as with_sharding_constraint

if _TYPE_CHECKING:
    from kiln.control.custom_rules.linear_solve import custom_linear_solve as custom_linear_solve
    from kiln.control.custom_rules.linear_solve import linear_solve_p as linear_solve_p
    from kiln.control.custom_rules.root import custom_root as custom_root
    from kiln.control.loops.associative_scan import associative_scan as associative_scan
    from kiln.control.loops.special_loops import betainc as betainc
    from kiln.control.loops.special_loops import igamma as igamma
    from kiln.control.loops.special_loops import igamma_grad_a as igamma_grad_a
    from kiln.control.loops.special_loops import igamma_grad_a_p as igamma_grad_a_p
    from kiln.control.loops.special_loops import igamma_p as igamma_p
    from kiln.control.loops.special_loops import igammac as igammac
    from kiln.control.loops.special_loops import igammac_p as igammac_p
    from kiln.control.loops.special_loops import random_gamma_grad as random_gamma_grad
    from kiln.control.loops.special_loops import random_gamma_grad_p as random_gamma_grad_p
    from kiln.control.loops.special_loops import (
        regularized_incomplete_beta_p as regularized_incomplete_beta_p,
    )
    from kiln.lax import linalg as linalg
    from kiln.lax.arrangement import broadcast_like as broadcast_like
    from kiln.lax.arrangement import stack as stack
    from kiln.lax.arrangement import tile as tile
    from kiln.lax.arrangement import unstack as unstack
    from kiln.lax.positions import index_take as index_take
    from kiln.lax.positions import scatter_apply as scatter_apply
    from kiln.lax.ragged import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from kiln.lax.ragged import ragged_dot as ragged_dot
    from kiln.lax.ragged import ragged_dot_general as ragged_dot_general
    from kiln.lax.selection import approx_max_k as approx_max_k
    from kiln.lax.selection import approx_min_k as approx_min_k
    from kiln.lax.shapes import broadcast_shapes as broadcast_shapes
    from kiln.lax.shapes import broadcast_to_rank as broadcast_to_rank
    from kiln.lax.shapes import collapse as collapse
    from kiln.lax.shapes import dtype as dtype
    from kiln.lax.shapes import empty as empty
    from kiln.lax.shapes import full as full
    from kiln.lax.shapes import full_like as full_like
    from kiln.lax.staged import composite as composite
    from kiln.lax.staged import pbroadcast as pbroadcast
    from kiln.lax.staged import platform_dependent as platform_dependent
    from kiln.lax.staged import shape_as_value as shape_as_value
    from kiln.lax.sums import reduce_sum as reduce_sum
    from kiln.lax.window_shapes import conv_general_permutations as conv_general_permutations
    from kiln.lax.window_shapes import conv_general_shape_tuple as conv_general_shape_tuple
    from kiln.lax.window_shapes import conv_shape_tuple as conv_shape_tuple
    from kiln.lax.window_shapes import conv_transpose_shape_tuple as conv_transpose_shape_tuple
    from kiln.lax.window_shapes import reduce_window_shape_tuple as reduce_window_shape_tuple
    from kiln.ops.elements.accuracy import AccuracyMode as AccuracyMode
    from kiln.ops.elements.accuracy import Tolerance as Tolerance
    from kiln.ops.elements.wide_product import mulhi as mulhi
    from kiln.ops.elements.wide_product import mulhi_p as mulhi_p
    from kiln.ops.exchange import all_gather as all_gather
    from kiln.ops.exchange import all_gather_p as all_gather_p
    from kiln.ops.exchange import all_to_all as all_to_all
    from kiln.ops.exchange import all_to_all_p as all_to_all_p
    from kiln.ops.exchange import ppermute as ppermute
    from kiln.ops.exchange import ppermute_p as ppermute_p
    from kiln.ops.exchange import pshuffle as pshuffle
    from kiln.ops.exchange import psum_scatter as psum_scatter
    from kiln.ops.exchange import pswapaxes as pswapaxes
    from kiln.ops.exchange import reduce_scatter_p as reduce_scatter_p
    from kiln.ops.linear.convolution import conv as conv
    from kiln.ops.linear.convolution import conv_general_dilated as conv_general_dilated
    from kiln.ops.linear.convolution import conv_general_dilated_p as conv_general_dilated_p
    from kiln.ops.linear.convolution import conv_with_general_padding as conv_with_general_padding
    from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers as ConvDimensionNumbers
    from kiln.ops.linear.convolution_numbers import (
        ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
    )
    from kiln.ops.linear.convolution_numbers import conv_dimension_numbers as conv_dimension_numbers
    from kiln.ops.linear.convolution_patches import (
        conv_general_dilated_local as conv_general_dilated_local,
    )
    from kiln.ops.linear.convolution_patches import (
        conv_general_dilated_patches as conv_general_dilated_patches,
    )
    from kiln.ops.linear.dot_algorithms import DotAlgorithm as DotAlgorithm
    from kiln.ops.linear.dot_algorithms import DotAlgorithmPreset as DotAlgorithmPreset
    from kiln.ops.linear.dot_algorithms import PrecisionLike as PrecisionLike
    from kiln.ops.linear.fft import FftType as FftType
    from kiln.ops.linear.fft import fft as fft
    from kiln.ops.linear.fft import fft_p as fft_p
    from kiln.ops.linear.transposed_convolution import conv_transpose as conv_transpose
    from kiln.ops.random.generators import RandomAlgorithm as RandomAlgorithm
    from kiln.ops.random.generators import rng_bit_generator as rng_bit_generator
    from kiln.ops.random.generators import rng_bit_generator_p as rng_bit_generator_p
    from kiln.ops.random.generators import rng_uniform as rng_uniform
    from kiln.ops.random.generators import rng_uniform_p as rng_uniform_p
    from kiln.ops.reductions.generic_reduction import reduce as reduce
    from kiln.ops.reductions.generic_reduction import reduce_p as reduce_p
    from kiln.ops.reductions.generic_window import reduce_window as reduce_window
    from kiln.ops.reductions.generic_window import reduce_window_p as reduce_window_p
    from kiln.ops.reductions.window import reduce_window_max_p as reduce_window_max_p
    from kiln.ops.reductions.window import reduce_window_min_p as reduce_window_min_p
    from kiln.ops.reductions.window import reduce_window_sum_p as reduce_window_sum_p
    from kiln.ops.reductions.window import select_and_gather_add_p as select_and_gather_add_p
    from kiln.ops.reductions.window import select_and_scatter_add_p as select_and_scatter_add_p
    from kiln.ops.reductions.window_geometry import padtype_to_pads as padtype_to_pads

__getattr__, __dir__ = _on_first_use(
    globals(),
    "linalg",
    "kiln.control.loops.associative_scan: associative_scan",
    "kiln.control.custom_rules.root: custom_root",
    "kiln.control.custom_rules.linear_solve: custom_linear_solve linear_solve_p",
    "kiln.control.loops.special_loops: betainc igamma igamma_grad_a igamma_grad_a_p igamma_p",
    "kiln.control.loops.special_loops: igammac igammac_p random_gamma_grad random_gamma_grad_p",
    "kiln.control.loops.special_loops: regularized_incomplete_beta_p",
    "kiln.lax.arrangement: broadcast_like stack tile unstack",
    "kiln.lax.positions: index_take scatter_apply",
    "kiln.lax.ragged: RaggedDotDimensionNumbers ragged_dot ragged_dot_general",
    "kiln.lax.selection: approx_max_k approx_min_k",
    "kiln.lax.shapes: broadcast_shapes broadcast_to_rank collapse dtype empty full full_like",
    "kiln.lax.staged: composite pbroadcast platform_dependent shape_as_value",
    "kiln.lax.sums: reduce_sum",
    "kiln.lax.window_shapes: conv_general_permutations conv_general_shape_tuple conv_shape_tuple",
    "kiln.lax.window_shapes: conv_transpose_shape_tuple reduce_window_shape_tuple",
    "kiln.ops.linear.convolution: conv conv_general_dilated conv_general_dilated_p",
    "kiln.ops.linear.convolution: conv_with_general_padding",
    "kiln.ops.linear.convolution_numbers: ConvDimensionNumbers conv_dimension_numbers",
    "kiln.ops.linear.convolution_numbers: ConvGeneralDilatedDimensionNumbers",
    "kiln.ops.elements.accuracy: AccuracyMode Tolerance",
    "kiln.ops.linear.convolution_patches: conv_general_dilated_local conv_general_dilated_patches",
    "kiln.ops.linear.dot_algorithms: DotAlgorithm DotAlgorithmPreset PrecisionLike",
    "kiln.ops.exchange: all_gather all_gather_p all_to_all all_to_all_p ppermute ppermute_p",
    "kiln.ops.exchange: pshuffle psum_scatter pswapaxes reduce_scatter_p",
    "kiln.ops.linear.fft: FftType fft fft_p",
    "kiln.ops.random.generators: RandomAlgorithm rng_bit_generator rng_bit_generator_p rng_uniform",
    "kiln.ops.random.generators: rng_uniform_p",
    "kiln.ops.reductions.generic_reduction: reduce reduce_p",
    "kiln.ops.reductions.generic_window: reduce_window reduce_window_p",
    "kiln.ops.linear.transposed_convolution: conv_transpose",
    "kiln.ops.elements.wide_product: mulhi mulhi_p",
    "kiln.ops.reductions.window: reduce_window_max_p reduce_window_min_p reduce_window_sum_p",
    "kiln.ops.reductions.window: select_and_gather_add_p select_and_scatter_add_p",
    "kiln.ops.reductions.window_geometry: padtype_to_pads",
)

# For `from kiln.lax import *`, which otherwise takes what is loaded.
__all__ = [name for name in __dir__() if not name.startswith("_")]
